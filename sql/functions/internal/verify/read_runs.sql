-- Returns the jobs with ids from p_after to p_to, as verify judges them. One statement reads both
-- tables, so a job that ends now is in exactly one of them. The history is read from p_since on.
--
-- Only starts up to p_until are judged. Slices that are read later then agree with this one: a job
-- that lives now was running or waiting at that time, whatever becomes of it.
--
-- A start is known only by the beginning of the call that made it, which may have waited. `sure_at`
-- is the time by which the run had begun: calls last no longer than p_calls, and no run ends before
-- it begins.
--
-- A job that was put back keeps the fence of the claim, and so does one that waits for its retry.
-- Neither runs, and neither did a job that was cancelled.
CREATE OR REPLACE FUNCTION read_runs(
    p_after bigint, p_to bigint, p_since timestamptz, p_until timestamptz, p_calls interval
) RETURNS SETOF job_run
LANGUAGE sql STABLE AS $$
    WITH job AS (
        SELECT id, false AS lives, status <> 'cancelled' AS ran, false AS waits, fence, started_at,
            finished_at AS ended_at, commit_time(xmin) AS committed_at, created_at, scheduled_at,
            priority, attempts, on_retry, errors, limit_key, batch_id,
            lanes_of(lock, locks) AS locks, shared
        FROM finished_jobs
        WHERE id > p_after AND id <= p_to AND finished_at >= p_since
        UNION ALL
        SELECT id, true, status = 'doing',
            status IN ('todo', 'blocked', 'limited', 'paused') AND attempts = 0, fence, started_at,
            'infinity', commit_time(xmin), created_at, scheduled_at, priority, attempts, on_retry,
            errors, limit_key, batch_id, lanes_of(lock, locks), shared
        FROM jobs
        WHERE id > p_after AND id <= p_to
    )
    SELECT id, lives, ran AND started_at IS NOT NULL AND started_at <= p_until, waits, fence,
        least(earlier.began_at, started_at), started_at,
        least(ended_at, started_at + p_calls, CASE WHEN lives THEN clock() END), ended_at,
        committed_at, created_at, scheduled_at, priority, attempts, on_retry = 'release',
        earlier.clash_from, earlier.clash_until, limit_key, batch_id, locks, shared
    FROM job
    LEFT JOIN LATERAL earlier_runs(errors, started_at) AS earlier ON errors <> '[]'
$$;
