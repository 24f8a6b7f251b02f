-- Judges a slice of the jobs, ended and living, in the order of their ids: did the queue keep its
-- promises (docs/verify.md)? A caller begins after 0 with no kept jobs. It continues with `job_id`
-- and `kept` of the row `read`, which comes last, until its job_id is NULL. Its other_id is the
-- last id of all. A later call may instead begin after `resume_after`, with no kept jobs.
--
-- Reads about p_size jobs, or as many as are kept if those are more. The verdict of a row:
--
--   broken    a promise was broken, by the jobs named
--   allowed   how many jobs started out of order for this reason, with an example
--   unsure    the same, where the history does not tell whether it was allowed
--   unknown   what cannot be judged (in the first slice)
--   read      how many jobs were read
--
-- Where the clock was set back, times contradict each other, and nothing is `broken` (clock_steps).
--
-- p_calls is the longest time that a call of a worker lasts, and p_open the longest that a
-- transaction which defers stays open.
CREATE OR REPLACE FUNCTION verify_slice(
    p_after bigint,
    p_kept  job_run[],
    p_until timestamptz,                -- starts after this time are not judged
    p_since timestamptz DEFAULT NULL,   -- jobs that ended before this time are not judged
    p_lock  text DEFAULT NULL,          -- only this lane
    p_size  integer DEFAULT 2000,
    p_calls interval DEFAULT '5 seconds',
    p_open  interval DEFAULT '1 minute'
) RETURNS TABLE (
    verdict text, promise text, reason text, lock text, job_id bigint, other_id bigint, seen text,
    jobs bigint, kept job_run[], resume_after bigint
)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_since timestamptz := coalesce(p_since, '-infinity');
    v_to    bigint := end_of_slice(p_after, v_since, greatest(p_size, cardinality(p_kept)));
    v_new   job_run[] := ARRAY(
        SELECT run FROM read_runs(p_after, v_to, v_since, p_until, p_calls) AS run);
    v_all   job_run[] := p_kept || v_new;
    v_runs  job_run[] := v_all;
BEGIN
    IF p_lock IS NOT NULL THEN
        v_runs := ARRAY(SELECT run FROM unnest(v_runs) AS run
                        WHERE p_lock IN (SELECT unnest(run.locks)));
    END IF;
    RETURN QUERY
    WITH seen AS MATERIALIZED (
        SELECT * FROM judge_lanes(v_runs, p_after, p_open)
        UNION ALL SELECT * FROM judge_order(v_runs, p_after, p_calls, p_open)
        UNION ALL SELECT * FROM judge_once(v_runs, p_after, p_calls)
        UNION ALL SELECT * FROM judge_limits(v_runs, p_after, p_calls)
        UNION ALL SELECT * FROM judge_rates(v_runs, p_after, p_calls)
        UNION ALL SELECT * FROM judge_parents(v_runs, p_after)
        UNION ALL SELECT * FROM judge_batches(v_runs, p_after, p_calls)
    ), step AS MATERIALIZED (
        SELECT fence, tstzrange(from_at - p_open, until_at + p_open) AS shown_twice
        FROM clock_steps(v_all, p_calls)
    ), judged AS (
        SELECT *, verdict = 'broken' AND EXISTS (
            SELECT FROM step
            WHERE shown_twice @> seen.from_at AND shown_twice @> seen.until_at
                AND NOT EXISTS (   -- both on one side of the step
                    SELECT FROM unnest(v_runs) AS run
                    WHERE run.ran AND (run.id = seen.other_id AND run.fence >= step.fence
                        OR run.id = seen.job_id AND run.fence < step.fence
                            AND run.started_at = seen.from_at))) AS is_doubtful
        FROM seen
    ), found AS MATERIALIZED (
        SELECT CASE WHEN is_doubtful THEN 'unsure' ELSE verdict END AS verdict, promise,
            CASE WHEN is_doubtful THEN 'clock set back' ELSE reason END AS reason, lock, job_id,
            other_id, judged.seen
        FROM judged
    )
    SELECT verdict, promise, reason, lock, job_id, other_id, found.seen, 1::bigint, NULL::job_run[],
        NULL::bigint
    FROM found WHERE verdict = 'broken'
    UNION ALL
    SELECT verdict, promise, reason, (array_agg(lock ORDER BY job_id))[1], min(job_id),
        (array_agg(other_id ORDER BY job_id))[1], (array_agg(found.seen ORDER BY job_id))[1],
        count(*), NULL, NULL
    FROM found WHERE verdict <> 'broken'
    GROUP BY verdict, promise, reason;
    RETURN QUERY
    SELECT 'unknown', NULL, NULL, NULL, NULL::bigint, NULL::bigint, fact, NULL::bigint,
        NULL::job_run[], NULL::bigint
    FROM (VALUES
        ('when a transaction that deferred jobs was committed, if the jobs have started since'),
        (CASE WHEN NOT current_setting('track_commit_timestamp')::boolean
              THEN 'when the end of a job was committed: track_commit_timestamp is off' END),
        ('which jobs a job came after, once it has started'),
        ('which limits held before their last change')
    ) AS untold(fact) WHERE p_after = 0 AND fact IS NOT NULL;
    kept := keep_runs(v_runs, 50000);
    RETURN QUERY SELECT 'read', NULL, NULL, NULL, v_to, greatest(
            (SELECT max(id) FROM jobs),
            (SELECT max(id) FROM finished_jobs
             WHERE finished_at >= date_trunc('day', v_since, 'UTC'))),
        NULL, cardinality(v_new)::bigint, kept,
        (SELECT least(v_to, min(run.id) - 1) FROM unnest(kept) AS run);
END $$;
