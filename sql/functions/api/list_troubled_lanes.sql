-- Returns lanes that may need a person, worst first, then lanes in use: at most p_limit, or only
-- those with one trouble. A trouble is a state of a lane (see lane_status), or
--   stalled   its worker is late or blocked
--   unserved  no worker serves the queue of its next job
--   unknown   no worker knows the task of its next job
--   limited   a job of it waits for a limit
-- `job_id` is the job to ask about if the lane need not have a row. `waiting` is at most 1,001.
--
-- Halted and paused lanes come from an index, and so do jobs in the hands of a worker, jobs that
-- wait for a limit, and the first 1,000 lanes of a queue that could start. The other lanes are
-- looked for among the first 10,000.
CREATE OR REPLACE FUNCTION list_troubled_lanes(
    p_limit   integer DEFAULT 100,
    p_trouble text DEFAULT NULL
) RETURNS TABLE (lock text, trouble text, since timestamptz, job_id bigint, waiting bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_silent uuid[] := ARRAY(
        SELECT id FROM worker_status WHERE worker_status.state IN ('late', 'blocked'));
BEGIN
    RETURN QUERY
    WITH stopped AS MATERIALIZED (
        (SELECT lock, 'halted' AS trouble, stopped_at AS since, NULL::bigint AS job_id
         FROM lanes WHERE stopped = 'halted' ORDER BY stopped_at LIMIT p_limit)
        UNION ALL
        (SELECT lock, 'paused', stopped_at, NULL FROM paused_lanes LIMIT p_limit)
    ), stalled AS MATERIALIZED (
        SELECT name AS lock, 'stalled' AS trouble, job.started_at AS since, job.id AS job_id
        FROM unnest(v_silent) AS silent(id)
        CROSS JOIN LATERAL (
            SELECT id, lock, locks, started_at FROM jobs
            WHERE status = 'doing' AND worker_id = silent.id LIMIT 1000) AS job
        CROSS JOIN LATERAL unnest(coalesce(job.locks, ARRAY[job.lock])) AS name
        WHERE job.lock IS NOT NULL
        ORDER BY job.started_at LIMIT p_limit
    ), unknown AS MATERIALIZED (
        SELECT queue::text, task::text FROM unknown_tasks LIMIT 20
    ), unserved AS MATERIALIZED (
        SELECT head.lock, CASE WHEN suspect.task IS NULL THEN 'unserved' ELSE 'unknown' END
                AS trouble, head.since, head.id AS job_id
        FROM (
            (SELECT queue::text, NULL::text AS task FROM queue_status
             WHERE workers = 0 AND runnable > 0 LIMIT 20)
            UNION ALL SELECT queue, task FROM unknown) AS suspect
        CROSS JOIN LATERAL (
            SELECT first.lock, first.id, first.since FROM (
                SELECT lock, id, task, coalesce(scheduled_at, created_at) AS since FROM jobs
                WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
                    AND queue = suspect.queue
                ORDER BY priority DESC, id LIMIT 1000) AS first
            WHERE coalesce(first.task = suspect.task, true)
                AND NOT EXISTS (
                    SELECT FROM lanes WHERE lanes.lock = first.lock AND state IS NOT NULL)
            LIMIT p_limit) AS head
    ), limited AS MATERIALIZED (
        SELECT lock, 'limited' AS trouble, since, id AS job_id FROM (
            SELECT lock, id, since FROM gated_jobs
            WHERE gate < 'task:' ORDER BY gate LIMIT 1000) AS job
        WHERE lock IS NOT NULL ORDER BY since LIMIT p_limit
    ), later AS MATERIALIZED (
        SELECT lock, state::text AS trouble, since FROM (
            SELECT lock, state, since FROM lanes
            WHERE coalesce(look_at, stopped_until) IS NOT NULL
            ORDER BY coalesce(look_at, stopped_until) LIMIT 1000) AS lane
        WHERE state = 'delayed' LIMIT p_limit
    ), in_use AS MATERIALIZED (
        SELECT lock, trouble, since FROM (
            SELECT lane.lock, lane.since, CASE WHEN lane.state = 'retrying' AND (
                SELECT true FROM jobs AS head
                WHERE head.id = lane.job_id AND (head.queue::text, head.task::text) IN (
                    TABLE unknown) LIMIT 1)
                THEN 'unknown' ELSE lane.state::text END AS trouble
            FROM (SELECT lock, state, since, job_id FROM lanes
                  WHERE state IS NOT NULL ORDER BY lock LIMIT 10000) AS lane
            WHERE lane.state IN ('held', 'retrying')) AS lane
        WHERE coalesce(trouble = p_trouble, true)
        ORDER BY trouble <> 'unknown', trouble = 'held', since LIMIT p_limit
    ), idle AS MATERIALIZED (
        SELECT lock, 'idle' AS trouble, since, job_id FROM idle_lanes ORDER BY since LIMIT p_limit
    ), found AS (
        TABLE stopped UNION ALL TABLE stalled UNION ALL TABLE unserved UNION ALL TABLE limited
        UNION ALL TABLE idle
        UNION ALL SELECT lock, trouble, since, NULL FROM later
        UNION ALL SELECT lock, trouble, since, NULL FROM in_use
    ), ranked AS (
        SELECT DISTINCT ON (lock) lock, trouble, since, job_id, array_position(
            ARRAY['halted', 'stalled', 'delayed', 'unserved', 'unknown', 'limited', 'paused',
                'retrying', 'idle', 'held'], trouble) AS rank
        FROM found ORDER BY lock, rank, since
    ), shown AS (
        SELECT * FROM ranked WHERE coalesce(trouble = p_trouble, true)
        ORDER BY rank, since, lock LIMIT p_limit
    )
    SELECT shown.lock::text, shown.trouble, shown.since, shown.job_id, line.waiting
    FROM shown CROSS JOIN LATERAL measure_line(shown.lock) AS line
    ORDER BY shown.rank, shown.since, shown.lock;
END $$;
