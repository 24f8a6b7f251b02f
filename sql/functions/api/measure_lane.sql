-- Returns how fast a lane went in the last hour: how many of its jobs ended, since when, how many
-- that is in a minute, and how long they waited and ran (like measure_history, but exact). One row.
-- `per_minute` is NULL if fewer than five ended. Five within a second are five in a minute.
--
-- The history has no index by lane, because it would make every end more expensive. Instead, this
-- looks at the 10,000 ended jobs that were deferred last before the lane's next job. `more` is true
-- if there are older ones, which may include more of this lane.
CREATE OR REPLACE FUNCTION measure_lane(p_lock text) RETURNS TABLE (
    ended bigint, failed bigint, since timestamptz, per_minute float8,
    wait_p50 interval, wait_p95 interval, run_p50 interval, run_p95 interval, more boolean
)
LANGUAGE plpgsql STABLE
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_next bigint := coalesce(
        (SELECT min(id) FROM lane_heads(ARRAY[p_lock])), 9223372036854775807);
BEGIN
    RETURN QUERY
    WITH newest AS MATERIALIZED (
        SELECT lock, locks, status, scheduled_at, created_at, started_at, finished_at
        FROM finished_jobs WHERE id < v_next ORDER BY id DESC LIMIT 10000
    ), job AS (
        SELECT status, finished_at,
            CASE WHEN status <> 'cancelled' THEN
                greatest(started_at - coalesce(scheduled_at, created_at), '0') END AS wait,
            CASE WHEN status <> 'cancelled' THEN finished_at - started_at END AS run
        FROM newest
        WHERE (lock = p_lock OR p_lock = ANY (locks)) AND finished_at > clock() - interval '1 hour'
    )
    SELECT count(*), count(*) FILTER (WHERE status = 'failed'), min(finished_at),
        CASE WHEN count(*) >= 5 THEN 60 * count(*)
            / greatest(extract(epoch FROM clock() - min(finished_at)), 60) END::float8,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY wait),
        percentile_cont(0.95) WITHIN GROUP (ORDER BY wait),
        percentile_cont(0.5) WITHIN GROUP (ORDER BY run),
        percentile_cont(0.95) WITHIN GROUP (ORDER BY run),
        (SELECT count(*) FROM newest) >= 10000
    FROM job;
END $$;
