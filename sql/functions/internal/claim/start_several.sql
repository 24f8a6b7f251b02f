-- start_several: the stage of a claim that starts jobs with several or shared lanes one by one (see
-- start_in_lanes): `started`. Blocks those that cannot start now.
CREATE OR REPLACE FUNCTION start_several(INOUT r claim_round)
LANGUAGE plpgsql AS $$
DECLARE
    v_id  bigint;
    v_try record;
BEGIN
    r.lanes_left := r.lanes_left - 8 * cardinality(r.several);
    FOREACH v_id IN ARRAY r.several LOOP
        -- It would lose the same lane as the job before it.
        CONTINUE WHEN r.missed <> '{}'
            AND (SELECT locks && r.missed FROM jobs WHERE id = v_id);
        SELECT * INTO v_try FROM start_in_lanes(r.worker, r.served, v_id, r.paused);
        IF (v_try.started).id IS NOT NULL THEN
            r.started := r.started || v_try.started;
            r.wanted := r.wanted - 1;
        ELSIF v_try.lost IS NOT NULL THEN
            r.missed := r.missed || v_try.lost;
        END IF;
    END LOOP;
    r.lost := r.lost || r.missed;
    IF r.shut IS NOT NULL THEN
        r.blocked := r.blocked + cardinality(block_in_lanes(r.shut));
    END IF;
END $$;
