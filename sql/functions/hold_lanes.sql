-- Locks the lane rows of jobs that are still done under these claims, and what of their own rows a user has touched. From here on
-- nobody blocks a job behind us unseen: who held a lane row before us is done when we look, who comes after us finds it as we
-- leave it. Nobody's open transaction is waited for: what somebody still has after a moment is busy, and not ours to end yet.
CREATE OR REPLACE FUNCTION hold_lanes(
    p_ids bigint[], p_claims uuid[],
    OUT stopped text[],   -- those of the lanes that a person has stopped meanwhile
    OUT busy    bigint[]  -- those of the jobs that somebody's open transaction keeps from us, or their lanes
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_in_the_way boolean;
BEGIN
    busy := '{}';
    WITH ours AS MATERIALIZED (
        SELECT jobs.lock, is_touched(jobs.xmin, jobs.xmax) AS touched
        FROM unnest(p_ids, p_claims) AS ours(id, claim_id)
        JOIN jobs ON jobs.id = ours.id AND jobs.claim_id = ours.claim_id
    ), held AS MATERIALIZED (
        SELECT lanes.lock, lanes.stopped FROM lanes
        WHERE lanes.lock IN (SELECT ours.lock FROM ours WHERE ours.lock IS NOT NULL)
        ORDER BY lanes.lock
        FOR UPDATE SKIP LOCKED
    )
    SELECT stops.locks, ours.locks > stops.held OR ours.touched INTO stopped, v_in_the_way
    FROM (SELECT count(lock) AS locks, bool_or(touched) AS touched FROM ours) AS ours,
         (SELECT count(*) AS held, coalesce(array_agg(lock) FILTER (WHERE stopped IS NOT NULL), '{}') AS locks FROM held) AS stops;

    IF v_in_the_way THEN
        SELECT rest.stopped, rest.busy INTO stopped, busy FROM hold_rest(p_ids, p_claims) AS rest;
    END IF;
END $$;
