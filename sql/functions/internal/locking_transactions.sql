-- Which transactions may have a row locked, by its xmax: one, or where several share it all that the number stands for. Whether it is
-- that of several the row does not say, so both are asked; of a number that is not, there is nothing to be read.
CREATE OR REPLACE FUNCTION locking_transactions(p_xmax xid) RETURNS SETOF xid
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN NEXT p_xmax;
    RETURN QUERY SELECT xid FROM pg_get_multixact_members(p_xmax);
EXCEPTION WHEN OTHERS THEN
    RETURN;
END $$;
