-- tidy_up: the stage of a claim that blocks what cannot start and gives back the lanes in which
-- nothing started: they are empty, the worker does not serve their head's queue, or an open
-- transaction has the head locked.
CREATE OR REPLACE FUNCTION tidy_up(INOUT r claim_round)
LANGUAGE plpgsql AS $$
BEGIN
    -- Do not try these lanes again: a faster claim may not have committed, so we cannot see it.
    r.lost := r.lost || ARRAY(SELECT unnest(r.lanes) EXCEPT SELECT unnest(r.used));
    -- Block what stays behind: tokens of held lanes, and tokens that were not the next job.
    IF EXISTS (SELECT unnest(r.seen) EXCEPT SELECT unnest(r.heads)) THEN
        r.behind := r.behind
            || CASE WHEN r.kept <> '{}' THEN mask_ids(r.seen, r.kept) ELSE r.seen END;
        r.behind_locks := r.behind_locks || r.lanes;
    END IF;
    IF r.behind IS NOT NULL THEN
        r.blocked := block_behind(r.served, r.behind, r.behind_locks);
    END IF;
    IF cardinality(r.used) < cardinality(r.won) THEN
        PERFORM notify_workers(release_lanes(
            ARRAY(SELECT unnest(r.won) EXCEPT SELECT unnest(r.used)), p_floors => r.floors));
    END IF;
END $$;
