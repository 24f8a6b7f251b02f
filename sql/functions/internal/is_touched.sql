-- Whether somebody else may have the row locked, or be changing it: told by the row itself, which is at hand when it is read, so
-- that the many that nobody has touched need no lock of their own before they are changed. What the transaction that wrote
-- the row has locked is over. A hint: a lock that is over leaves its trace too, and one may come the moment after.
CREATE OR REPLACE FUNCTION is_touched(p_xmin xid, p_xmax xid) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_xmax <> '0'::xid AND p_xmax <> p_xmin
$$;
