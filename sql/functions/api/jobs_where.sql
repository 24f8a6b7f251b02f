-- Returns a filter for list_jobs, count_jobs, preview_jobs and the other functions that take one. A
-- job must match everything that is given.
CREATE OR REPLACE FUNCTION jobs_where(
    statuses      job_status[] DEFAULT NULL,
    queue         text         DEFAULT NULL,
    task          text         DEFAULT NULL,
    lock          text         DEFAULT NULL,
    queueing_lock text         DEFAULT NULL,
    worker_id     uuid         DEFAULT NULL,
    batch_id      bigint       DEFAULT NULL,
    group_key     text         DEFAULT NULL,
    lock_prefix   text         DEFAULT NULL,
    error         text         DEFAULT NULL,   -- a part of the last attempt's error
    before        timestamptz  DEFAULT NULL,   -- it ended, or was deferred, before
    ids           bigint[]     DEFAULT NULL
) RETURNS job_filter
LANGUAGE sql IMMUTABLE AS $$
    SELECT ROW(statuses, queue, task, lock, queueing_lock, worker_id, batch_id, group_key,
        lock_prefix, error, before, ids)::job_filter
$$;
