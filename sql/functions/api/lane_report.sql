-- Returns everything about one lane, in one row: its state, the job that runs or goes next (head),
-- the job that has halted it (failed), and the jobs behind. The state is `free` if no worker holds
-- the lane, or `idle` if its head has other lanes too and waits for one of them (waits_for). If
-- jobs share the lane (readers), the head is the job that goes next. One statement, one snapshot.
-- At most 1,000 jobs behind the head are read, and the 10,000 jobs that have been due for longest.
CREATE OR REPLACE FUNCTION lane_report(p_lock text) RETURNS TABLE (
    lock text, state text, since timestamptz, worker text,
    stopped lane_state, stopped_at timestamptz, stopped_until timestamptz, stopped_by text,
    stop_reason text,
    head_id bigint, head_status job_status, head_task text, head_attempts integer,
    head_created_at timestamptz, head_at timestamptz, head_error text,
    failed_id bigint, failed_task text, failed_attempts integer, failed_created_at timestamptz,
    failed_at timestamptz, failed_error text,
    behind bigint, oldest timestamptz, next_ids bigint[], next_tasks text[],
    readers integer, waits_for text
)
LANGUAGE sql STABLE AS $$
    WITH lane AS MATERIALIZED (
        SELECT * FROM lanes WHERE lanes.lock = p_lock AND lanes.state IS NOT NULL
    ), first AS (
        SELECT priority, id FROM lane_heads(ARRAY[p_lock])
        UNION ALL
        SELECT priority, id FROM (
            SELECT * FROM jobs WHERE status = 'scheduled' AND scheduled_at <= clock()
            ORDER BY scheduled_at LIMIT 10000) AS due
        WHERE (due.lock = p_lock OR p_lock = ANY (due.locks)) AND due.keeps_lanes IS NULL
    ), head AS MATERIALIZED (
        SELECT job.* FROM live_jobs AS job
        JOIN lane ON job.stored_as = 'doing' AND job.worker_id = lane.worker_id
                 AND (job.lock = lane.lock OR lane.lock = ANY (job.locks))
        UNION ALL
        SELECT job.* FROM live_jobs AS job
        WHERE NOT EXISTS (SELECT FROM lane WHERE worker_id IS NOT NULL)
          AND job.id = coalesce(
              (SELECT job_id FROM lane), (SELECT id FROM first ORDER BY priority DESC, id LIMIT 1))
    ), behind AS MATERIALIZED (
        SELECT id, task, created_at, row_number() OVER (ORDER BY priority DESC, id) AS place FROM (
            (SELECT id, task, created_at, priority FROM jobs
             WHERE jobs.lock = p_lock AND status IN ('todo', 'blocked', 'limited', 'paused')
                AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
             ORDER BY priority DESC, id LIMIT 1001)
            UNION ALL
            (SELECT jobs.id, jobs.task, jobs.created_at, jobs.priority
             FROM (SELECT * FROM waits WHERE waits.lock = p_lock
                   ORDER BY priority DESC, id LIMIT 1001) AS line
             CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = line.id LIMIT 1) AS jobs)
            ORDER BY priority DESC, id LIMIT 1001
        ) AS waiting WHERE id NOT IN (SELECT id FROM head)
    )
    SELECT p_lock,
           coalesce(lane.state::text, CASE WHEN other.lock IS NULL THEN 'free' ELSE 'idle' END),
           lane.since, workers.name,
           lane.stopped, lane.stopped_at, lane.stopped_until, lane.stopped_by, lane.stop_reason,
           head.id, head.status, head.task, head.attempts, head.created_at,
           CASE head.stored_as WHEN 'doing' THEN head.started_at ELSE head.scheduled_at END,
           head.errors -> -1 ->> 'error',
           failed.id, failed.task, failed.attempts, failed.created_at, failed.finished_at,
           failed.errors -> -1 ->> 'error',
           (SELECT least(count(*), 1000) FROM behind), (SELECT min(created_at) FROM behind),
           ARRAY(SELECT id FROM behind ORDER BY place LIMIT 2),
           ARRAY(SELECT task FROM behind ORDER BY place LIMIT 2), lane.readers, other.lock
    FROM (SELECT p_lock AS lock) AS asked
    LEFT JOIN lane ON true
    LEFT JOIN head ON true
    LEFT JOIN workers ON workers.id = lane.worker_id
    LEFT JOIN LATERAL (
        SELECT coalesce(
            closed_lane(head.id, array_remove(head.locks, p_lock), head.shared), (
            SELECT first.lock FROM lane_heads(array_remove(head.locks, p_lock)) AS first
            WHERE first.id <> head.id LIMIT 1)) AS lock
        WHERE head.status = 'blocked' AND head.locks IS NOT NULL
    ) AS other ON true
    LEFT JOIN LATERAL (
        SELECT * FROM finished_jobs WHERE id = lane.failed_job_id ORDER BY finished_at DESC LIMIT 1
    ) AS failed ON true
$$;
