-- Locks the lane rows of jobs that are still done under these claims, and what of their own rows a user has touched. From here on
-- nobody blocks a job behind us unseen: who held a lane row before us is done when we look, who comes after us finds it as we
-- leave it. Nobody's open transaction is waited for: what somebody still has after a moment is busy, and not ours to end yet.
CREATE OR REPLACE FUNCTION hold_lanes(p_ids bigint[], p_claims uuid[])
RETURNS TABLE (
    stopped text[],   -- those of the lanes that a person has stopped meanwhile
    busy    bigint[]  -- those of the jobs that somebody's open transaction keeps from us, or their lanes
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ours record;
    v_held text[] := '{}';
    v_got  bigint[];
BEGIN
    stopped := '{}';
    busy := '{}';
    SELECT coalesce(array_agg(jobs.lock) FILTER (WHERE jobs.lock IS NOT NULL), '{}') AS locks,
           array_agg(jobs.id) FILTER (WHERE is_touched(jobs.xmin, jobs.xmax)) AS touched
    INTO v_ours
    FROM unnest(p_ids, p_claims) AS ours(id, claim_id) JOIN jobs ON jobs.id = ours.id AND jobs.claim_id = ours.claim_id;

    FOR attempt IN 1..2 LOOP
        EXIT WHEN v_ours.locks = '{}' AND v_ours.touched IS NULL;
        WITH held AS MATERIALIZED (
            SELECT lanes.lock, lanes.stopped FROM lanes WHERE lanes.lock = ANY (v_ours.locks) ORDER BY lanes.lock
            FOR UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(lock), '{}'), coalesce(array_agg(lock) FILTER (WHERE stopped IS NOT NULL), '{}')
        INTO v_held, stopped FROM held;
        IF v_ours.touched IS NOT NULL THEN
            v_got := ARRAY(SELECT id FROM jobs WHERE id = ANY (v_ours.touched) ORDER BY id FOR UPDATE SKIP LOCKED);
        END IF;
        EXIT WHEN cardinality(v_held) >= cardinality(v_ours.locks) AND (v_ours.touched IS NULL OR v_ours.touched <@ v_got);

        IF attempt = 1 THEN
            PERFORM await_locks(v_ours.locks, v_ours.touched);
        ELSE
            busy := ARRAY(
                SELECT jobs.id
                FROM unnest(p_ids, p_claims) AS ours(id, claim_id)
                JOIN jobs ON jobs.id = ours.id AND jobs.claim_id = ours.claim_id
                WHERE EXISTS (SELECT FROM lanes WHERE lanes.lock = jobs.lock AND lanes.lock <> ALL (v_held))
                   OR (jobs.id = ANY (v_ours.touched) AND jobs.id <> ALL (v_got))
            );
        END IF;
    END LOOP;
    RETURN NEXT;
END $$;
