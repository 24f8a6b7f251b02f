-- Locks the lane rows of jobs that are still done under these claims, sorted by lock. It waits at most for one short claim.
-- From here on nobody blocks a job behind us unseen: who held the row before us is done when we look, who comes after
-- us finds the row as we leave it. Returns those of the lanes that a person has stopped meanwhile.
CREATE OR REPLACE FUNCTION hold_lanes(p_ids bigint[], p_claims uuid[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_result text[];
BEGIN
    WITH held AS MATERIALIZED (
        SELECT lanes.lock, lanes.stopped FROM lanes
        WHERE lanes.lock IN (
            SELECT jobs.lock
            FROM unnest(p_ids, p_claims) AS ours(id, claim_id)
            JOIN jobs ON jobs.id = ours.id AND jobs.claim_id = ours.claim_id
            WHERE jobs.lock IS NOT NULL
        )
        ORDER BY lanes.lock
        FOR UPDATE
    )
    SELECT coalesce(array_agg(lock) FILTER (WHERE stopped IS NOT NULL), '{}') INTO v_result FROM held;
    RETURN v_result;
END $$;
