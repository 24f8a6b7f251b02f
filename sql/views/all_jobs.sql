-- Live and finished jobs together, as people see them. To filter by status, filter by stored_as
-- first (see live_jobs).
CREATE OR REPLACE VIEW all_jobs AS
SELECT id, status, queue, task, lock, priority, attempts, args, errors, created_at, scheduled_at,
       started_at, NULL::timestamptz AS finished_at, worker_id, fence, queueing_lock, timeout,
       NULL::jsonb AS result, stored_as, expires_at, limit_key, group_key, batch_id,
       progress, locks, shared, headers, abort
FROM live_jobs
UNION ALL
SELECT id, status, queue, task, lock, priority, attempts, args, errors, created_at, scheduled_at,
       started_at, finished_at, worker_id, fence, queueing_lock, timeout, result, status,
       expires_at, limit_key, group_key, batch_id,
       (SELECT jsonb_build_object('done', reported.done, 'total', reported.total,
            'text', reported.text, 'updated_at', reported.updated_at)
        FROM progress AS reported
        WHERE reported.job_id = finished_jobs.id AND reported.fence = finished_jobs.fence),
       locks, shared, headers, false
FROM finished_jobs;

COMMENT ON VIEW all_jobs IS 'Every job, live and finished.';
DO $$   -- the same comments as in live_jobs, except those below
DECLARE
    v_comment text;
BEGIN
    FOR v_comment IN
        SELECT format('COMMENT ON COLUMN all_jobs.%I IS %L', attname,
            col_description(attrelid, attnum))
        FROM pg_attribute WHERE attrelid = 'live_jobs'::regclass AND attnum > 0
    LOOP
        EXECUTE v_comment;
    END LOOP;
END $$;
COMMENT ON COLUMN all_jobs.status IS 'As in live_jobs until it ends, then how it ended.';
COMMENT ON COLUMN all_jobs.finished_at IS 'When it ended; NULL: not yet.';
COMMENT ON COLUMN all_jobs.worker_id IS 'The worker that has it or ended it; NULL: none.';
COMMENT ON COLUMN all_jobs.result IS 'What the task returned; NULL: nothing, or not yet.';
