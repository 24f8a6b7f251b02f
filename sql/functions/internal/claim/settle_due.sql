-- settle_due: makes ready, or ends, what is due (see begin_claim), and ends pauses that are over.
-- Steps that produce work for others run first. Every step is bounded, by p_most children and
-- events of batches among others, and may leave some. Refuses what begin_claim does not allow.
-- Returns true if anything was due, or else NULL.
CREATE OR REPLACE FUNCTION settle_due(p_worker uuid, p_most integer, p_due record) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_looks boolean := p_due.looks;
BEGIN
    IF NOT p_due.allowed THEN   -- one of these raises the error
        PERFORM require_settings();
        PERFORM require_registered(p_worker);
    END IF;
    IF p_due.jobs THEN
        PERFORM promote(1000);   -- before we have a transaction id (see await_parents)
    END IF;
    IF p_due.pauses AND end_pauses() THEN
        v_looks := true;
    END IF;
    IF p_due.expiries THEN
        PERFORM expire_jobs(500, 50);   -- the rest do not start (see start_jobs)
    END IF;
    IF coalesce(p_due.ends, p_due.jobs, p_due.expiries) THEN   -- the calls above may leave some
        PERFORM settle_ends(100, p_most);
    END IF;
    IF coalesce(p_due.batches, p_due.ends, p_due.jobs, p_due.expiries) THEN
        PERFORM settle_batches(p_most);
    END IF;
    IF coalesce(v_looks, p_due.ends, p_due.expiries) THEN   -- these may leave some, too
        PERFORM resume_lanes(100);
        PERFORM check_gates(10);
    END IF;
    RETURN coalesce(p_due.jobs, p_due.expiries, p_due.ends, p_due.batches, v_looks);
END $$;
