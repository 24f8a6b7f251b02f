-- Sets how the planner works in the functions that must not read a whole table (functions/README.md
-- says why). What only one of them sets is in its own file.
DO $$
DECLARE
    v_change text;
BEGIN
    FOR v_change IN
        -- A name without a function is an error.
        SELECT format('ALTER FUNCTION %s %s', coalesce(oid::regprocedure::text, name), settings)
        FROM (VALUES
            -- On the path of each job, and the bulk changes.
            ('{claim, claim_further, finish, retry, put_back, change_jobs, change_lanes}'::text[],
             'SET plan_cache_mode = force_generic_plan SET enable_seqscan = off '
             'SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off '
             'SET enable_material = off SET enable_memoize = off SET jit = off'),
            ('{defer_jobs, has_ended, cancel_job, retry_job, retry_job_changed, delete_job,
               cancel_batch, pause_lane, resume_lane, skip_head, retry_head, cancel_waiting,
               set_limit, change_limit, remove_limit, next_wake, reconcile, rescue, upkeep_is_due,
               prune_progress, retake_queueing_locks, candidates, explain, stalled_jobs, list_lanes,
               list_line, list_groups, list_troubled_lanes, limited_jobs, count_lanes, ended_lately,
               measure_waiting, measure_lanes, measure_lane, measure_line, measure_paces,
               measure_flow, measure_history}',
             'SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off')
        ) AS profile (names, settings) CROSS JOIN unnest(names) AS name
        LEFT JOIN pg_proc ON proname = name AND pg_has_role(proowner, 'USAGE')
            AND pronamespace = quote_ident(current_schema())::regnamespace
    LOOP
        EXECUTE v_change;
    END LOOP;
END $$;
