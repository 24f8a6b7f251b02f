-- Returns whether another session may have the row locked or be changing it. The row itself tells
-- this when it is read, so untouched rows need no lock of their own before they are changed. Locks
-- of the transaction that wrote the row are over. This is a hint: a released lock leaves its trace
-- too, and a new one may come a moment later.
CREATE OR REPLACE FUNCTION is_touched(p_xmin xid, p_xmax xid) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_xmax <> '0'::xid AND p_xmax <> p_xmin
$$;
