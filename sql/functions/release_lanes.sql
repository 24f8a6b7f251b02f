-- Gives lanes back: their best waiting job becomes `todo`, the lane's wake-up token, and the lane row goes. The caller
-- holds the rows. Returns the queues of the tokens, for whoever must be woken.
CREATE OR REPLACE FUNCTION release_lanes(p_locks text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_result text[];
BEGIN
    WITH head AS MATERIALIZED (
        SELECT id, queue FROM lane_heads(p_locks)
    ), token AS (
        UPDATE jobs SET status = 'todo' FROM head WHERE jobs.id = head.id AND jobs.status = 'blocked'
    ), gone AS (
        DELETE FROM lanes WHERE lanes.lock = ANY (p_locks)
    )
    SELECT coalesce(array_agg(DISTINCT queue), '{}') INTO v_result FROM head;
    RETURN v_result;
END $$;
