-- settle_due: makes ready, or ends, what is due; steps that produce work for others run first. Each
-- argument is true if something of its kind is due. Every step handles at most p_most of it, and
-- may leave some. Returns how many all of them have handled.
CREATE OR REPLACE FUNCTION settle_due(
    p_most integer,
    p_jobs boolean, p_expiries boolean, p_ends boolean, p_batches boolean, p_looks boolean
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_done integer := 0;
BEGIN
    IF p_jobs THEN
        v_done := promote(p_most);   -- before we have a transaction id (see await_parents)
    END IF;
    IF p_expiries THEN   -- the rest do not start (see start_jobs)
        v_done := v_done + expire_jobs(least(p_most, 500), least(p_most, 50));
    END IF;
    IF coalesce(p_ends, p_jobs, p_expiries) THEN   -- the calls above may leave some
        v_done := v_done + settle_ends(least(p_most, 100), p_most);
    END IF;
    IF coalesce(p_batches, p_ends, p_jobs, p_expiries) THEN
        v_done := v_done + settle_batches(p_most);
    END IF;
    IF coalesce(p_looks, p_ends, p_expiries) THEN   -- these may leave some, too
        v_done := v_done + resume_lanes(least(p_most, 100));
        v_done := v_done + check_gates(least(p_most, 10), p_most);
    END IF;
    RETURN v_done;
END $$;
