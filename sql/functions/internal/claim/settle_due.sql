-- settle_due: makes ready, or ends, what is due besides scheduled jobs; steps that produce work for
-- others run first. Each argument is true if something of its kind was due. Every step is bounded,
-- by p_most children and events of batches among others, and may leave some.
CREATE OR REPLACE FUNCTION settle_due(
    p_most integer, p_jobs boolean, p_expiries boolean, p_ends boolean, p_batches boolean,
    p_looks boolean
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_expiries THEN
        PERFORM expire_jobs(500, 50);   -- the rest do not start (see start_jobs)
    END IF;
    IF coalesce(p_ends, p_jobs, p_expiries) THEN   -- the calls above may leave some
        PERFORM settle_ends(100, p_most);
    END IF;
    IF coalesce(p_batches, p_ends, p_jobs, p_expiries) THEN
        PERFORM settle_batches(p_most);
    END IF;
    IF coalesce(p_looks, p_ends, p_expiries) THEN   -- these may leave some, too
        PERFORM resume_lanes(100);
        PERFORM check_gates(10);
    END IF;
END $$;
