-- Returns how to end a job that has been running for more than an hour, in case it hangs: its
-- worker is well, so nothing else would end it. First, ask its worker to abort it. A task that
-- ignores this, for example because it hangs in a thread, ends only with its process, which is
-- named at any age: whoever asked has judged the job. If the database refuses the worker's calls,
-- the job may already have ended.
CREATE OR REPLACE FUNCTION ending_of_run(p_id bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN job.abort
        THEN 'it was asked to abort; if it does not: ' || ending_of_worker(worker)
        ELSE 'if it hangs: queue jobs cancel --abort ' || job.id END
    FROM jobs AS job JOIN workers AS worker ON worker.id = job.worker_id
    WHERE job.id = p_id AND job.status = 'doing'
        AND (job.abort OR job.started_at < clock() - interval '1 hour')
        AND is_live(worker) AND NOT is_blocked(worker) AND worker.trouble IS NULL
$$;
