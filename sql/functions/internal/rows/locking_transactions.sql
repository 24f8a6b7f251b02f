-- Returns the transactions that may have a row locked, given its xmax: one transaction, or the
-- members of a multixact. The row does not tell which it is, so both are tried. If the number is
-- not a multixact, there are no members to read.
CREATE OR REPLACE FUNCTION locking_transactions(p_xmax xid) RETURNS SETOF xid
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN NEXT p_xmax;
    RETURN QUERY SELECT xid FROM pg_get_multixact_members(p_xmax);
EXCEPTION WHEN OTHERS THEN
    RETURN;
END $$;
