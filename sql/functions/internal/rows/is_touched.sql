-- Returns whether somebody else may have the row locked, or be changing it. The row itself tells,
-- once it is read, so rows that nobody has touched need no lock of their own before they are
-- changed. Locks of the transaction that wrote the row are over. This is a hint: a lock that is
-- over leaves its trace too, and a new one may come a moment later.
CREATE OR REPLACE FUNCTION is_touched(p_xmin xid, p_xmax xid) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_xmax <> '0'::xid AND p_xmax <> p_xmin
$$;
