-- The public surface: the functions called from outside, the tables and views read from outside,
-- and the roles that may do so. Only the owner of the schema can call or read anything else. The
-- functions are those in sql/functions/api.
--
-- These functions run as the owner (see close.sql), so each of them must check its arguments. The
-- functions that they call run as the owner too.
--
-- Columns are listed if a role may not read all of them. Arguments, errors and results may contain
-- secrets, and knowing a claim is enough to end its job. A new column is closed until it is listed
-- here.
CREATE OR REPLACE VIEW surface AS
SELECT kind, unnest(names) AS name, roles, NULL::text AS columns
FROM (VALUES
    ('function', '{producer,worker,operator,monitor}'::text[], '{clock, show_cell}'::text[]),
    ('function', '{producer}', '{defer, defer_job, defer_jobs, open_batch}'),
    -- To cancel a job, its id is enough.
    ('function', '{producer,operator}', '{
        cell_of, close_batch, cancel_batch, await_end, cancel_job}'),
    ('function', '{worker}', '{
        register_worker, heartbeat, set_awake, next_wake, unregister_worker,
        claim, claim_further, jobs_of_worker, abort_requests, final_ids, finish, retry, put_back,
        batch_counts, has_ended, check_fence, report_progress,
        last_heartbeats, upkeep_is_due, declare_dead, rescue, reconcile, roll_up,
        prepare_history, prune_history, prune_progress, prune_batches,
        register_schedules, schedule_progress, defer_periodic}'),
    -- For the built-in task that deletes old jobs.
    ('function', '{worker,operator}', '{delete_old_jobs}'),
    -- For the built-in task that verifies.
    ('function', '{worker,operator,monitor}', '{verify_slice}'),
    -- count_jobs is not for monitors: its filter compares with errors.
    ('function', '{operator}', '{
        explain, jobs_where, list_jobs, search_is_cut, count_jobs, stalled_jobs, list_lanes,
        lane_report, retry_job, retry_job_changed, delete_job,
        find_jobs, preview_jobs, change_jobs, find_lanes, preview_lanes, change_lanes,
        pause_queue, resume_queue, pause_task, resume_task,
        pause_lane, resume_lane, skip_head, retry_head, cancel_waiting,
        set_limit, change_limit, remove_limit, set_group, remove_group}'),
    ('function', '{operator,monitor}', '{
        explain_read_only, count_jobs_by, held_for_long, count_lanes, list_troubled_lanes,
        list_line, limited_jobs, list_changes, list_audit, list_job_audit, list_schedules,
        list_limits, list_limit_keys, list_groups, sequences_behind, ended_lately, verify,
        last_verification,
        measure_waiting, measure_lanes, measure_workers, measure_history, measure_lane,
        measure_line, measure_paces, measure_flow, measure_history_size}'),

    -- Clients check that the schema fits their version.
    ('table', '{producer,worker,operator,monitor}', '{schema_version, applied_code}'),
    ('table', '{producer,operator,monitor}', '{batch_status}'),
    ('table', '{worker,operator,monitor}', '{schedules}'),
    ('table', '{operator}', '{
        all_jobs, live_jobs, jobs, finished_jobs, progress, lane_status, recent_failures,
        shared_errors}'),
    ('table', '{operator,monitor}', '{
        claimed_jobs, edges, idle_lanes, lanes, waits, limits, gates, gated_jobs, groups,
        lane_audit, queue_status, task_status, task_history, queue_history, rollups, rollup_days,
        workers, worker_status, runnable_tasks, unknown_tasks, halted_lanes, paused_lanes,
        paused_queues, paused_tasks, pauses, repaired_lanes, repaired_limits, miscounted_limits,
        forgotten_batches, failed_parents, open_transactions, suspect_jobs, surface}')
) AS listed (kind, roles, names)
UNION ALL
-- Not all columns.
SELECT * FROM (VALUES
    ('table', 'all_jobs', '{producer}'::text[], 'id, status'),
    ('table', 'all_jobs', '{monitor}',
        'id, status, queue, task, lock, priority, attempts, created_at, scheduled_at, started_at, '
        'finished_at, worker_id, fence, queueing_lock, timeout, stored_as, expires_at, '
        'limit_key, group_key, batch_id, locks, shared, abort'),
    ('table', 'live_jobs', '{monitor}',
        'id, status, stored_as, queue, task, lock, priority, attempts, created_at, scheduled_at, '
        'started_at, worker_id, fence, queueing_lock, timeout, abort, expires_at, '
        'limit_key, group_key, batch_id, locks, shared'),
    ('table', 'jobs', '{monitor}',
        'id, status, queue, task, lock, priority, attempts, created_at, scheduled_at, started_at, '
        'worker_id, fence, queueing_lock, timeout, on_retry, on_failure, abort, '
        'has_waiters, has_children, has_parents, was_attempted, lost_queueing_lock, expires_at, '
        'limit_key, group_key, batch_id, locks, shared, keeps_lanes, delayed_at, back_id'),
    ('table', 'finished_jobs', '{monitor}',
        'id, status, queue, task, lock, priority, attempts, created_at, scheduled_at, started_at, '
        'finished_at, worker_id, fence, queueing_lock, timeout, on_retry, on_failure, '
        'expires_at, limit_key, group_key, batch_id, locks, shared'),
    ('table', 'progress', '{monitor}', 'job_id, fence, done, total, updated_at'),
    ('table', 'lane_status', '{monitor}',
        'lock, state, since, job_id, job_status, task, attempts, due_at, worker, heartbeat_at, '
        'waiting, more, stopped, stopped_at, stopped_until, stopped_by, stop_reason, '
        'failed_job_id, failed_task, readers, waits_for'),
    ('table', 'recent_failures', '{monitor}',
        'task, failed, last_at, job_id, first_at, lanes, job_ids'),
    ('table', 'shared_errors', '{monitor}', 'halted, retrying, job_id, task, lock')
) AS limited (kind, name, roles, columns);

COMMENT ON VIEW surface IS 'What may be called and read from outside, and by which roles.';
COMMENT ON COLUMN surface.kind IS 'function or table; a view counts as a table.';
COMMENT ON COLUMN surface.name IS 'Its name.';
COMMENT ON COLUMN surface.roles IS 'Who may: producer, worker, operator, monitor.';
COMMENT ON COLUMN surface.columns IS 'The columns that they may read; NULL: all.';
