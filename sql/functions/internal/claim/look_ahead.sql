-- look_ahead: the stage of a claim that reads the front, or what is new (new_candidates). Locks the
-- best free jobs (`ids`) and reads a window of lane tokens, which grows from round to round if the
-- jobs in front cannot start.
CREATE OR REPLACE FUNCTION look_ahead(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_shares integer[];  -- how many free jobs to read in each queue
BEGIN
    r.blocked := 0;
    IF r.since IS NOT NULL THEN
        r := new_candidates(r);
        RETURN;
    END IF;
    IF cardinality(r.queues) > 1 THEN
        -- Read and lock only the best overall. If other claims were faster, the next round locks
        -- whatever it reads.
        v_shares := CASE WHEN r.short THEN array_fill(r.wanted, ARRAY[cardinality(r.queues)])
                         ELSE front_shares(r.queues, r.wanted, false) END;
        r.windows := front_shares(r.queues, r.reach, true);
    ELSE
        v_shares := ARRAY[r.wanted];
        r.windows := ARRAY[r.reach];
    END IF;
    IF r.fair THEN
        r := fair_candidates(r, v_shares);
    ELSE
        r := claim_candidates(r, v_shares);
    END IF;
    IF cardinality(r.queues) > 1 THEN
        r.short := r.short IS NOT TRUE
            AND cardinality(r.ids) < (SELECT sum(share) FROM unnest(v_shares) AS share);
    END IF;
END $$;
