-- Does the work of lock_lanes if another session is, or may be, in the way. Waits a moment, takes
-- what is free then, and returns what is not. Lock order: lanes, then jobs. A job that does not get
-- all of its lanes is busy.
CREATE OR REPLACE FUNCTION lock_contended_lanes(p_ids bigint[], p_claims uuid[], OUT stopped text[],
    OUT busy bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_ours record;
    v_held text[];
    v_got  bigint[];
BEGIN
    SELECT array_agg(lane) FILTER (WHERE lane IS NOT NULL) AS locks,
           array_agg(jobs.id) FILTER (WHERE is_touched(jobs.xmin, jobs.xmax)) AS touched
    INTO v_ours
    FROM unnest(p_ids, p_claims) AS ours(id, claim_id)
    CROSS JOIN LATERAL (
        SELECT j.id, lanes_of(j.lock, j.locks) AS locks, j.xmin, j.xmax FROM jobs AS j
        WHERE j.id = ours.id AND j.claim_id = ours.claim_id LIMIT 1
    ) AS jobs
    LEFT JOIN LATERAL unnest(jobs.locks) AS lane ON true;

    PERFORM await_locks(v_ours.locks, v_ours.touched);

    WITH held AS MATERIALIZED (
        SELECT lanes.lock, lanes.stopped FROM lanes WHERE lanes.lock = ANY (v_ours.locks)
        ORDER BY lanes.lock
        FOR UPDATE SKIP LOCKED
    )
    SELECT coalesce(array_agg(lock), '{}'),
        coalesce(array_agg(lock) FILTER (WHERE stopped IS NOT NULL), '{}')
    INTO v_held, stopped FROM held;
    v_got := ARRAY(SELECT id FROM jobs WHERE id = ANY (v_ours.touched) ORDER BY id
        FOR UPDATE SKIP LOCKED);
    busy := ARRAY(
        SELECT jobs.id
        FROM unnest(p_ids, p_claims) AS ours(id, claim_id)
        CROSS JOIN LATERAL (
            SELECT j.id, lanes_of(j.lock, j.locks) AS locks FROM jobs AS j
            WHERE j.id = ours.id AND j.claim_id = ours.claim_id LIMIT 1
        ) AS jobs
        WHERE EXISTS (SELECT FROM unnest(jobs.locks) AS lane
                      WHERE lane NOT IN (SELECT unnest(v_held))
                          AND (SELECT true FROM lanes WHERE lanes.lock = lane))
           OR (jobs.id IN (SELECT unnest(v_ours.touched))
               AND jobs.id NOT IN (SELECT unnest(v_got)))
    );
END $$;
