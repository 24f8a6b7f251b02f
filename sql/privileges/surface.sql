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
SELECT * FROM (VALUES
    ('function', 'clock',               '{producer,worker,operator,monitor}'::text[], NULL::text),

    -- Producers create jobs and learn how they end. To cancel a job, its id is enough.
    ('function', 'defer',               '{producer}', NULL),
    ('function', 'defer_job',           '{producer}', NULL),
    ('function', 'defer_jobs',          '{producer}', NULL),
    ('function', 'open_batch',          '{producer}', NULL),
    ('function', 'close_batch',         '{producer,operator}', NULL),
    ('function', 'cancel_batch',        '{producer,operator}', NULL),
    ('function', 'await_end',           '{producer,operator}', NULL),
    ('function', 'cancel_job',          '{producer,operator}', NULL),

    -- A worker starts, lives and ends.
    ('function', 'register_worker',     '{worker}', NULL),
    ('function', 'heartbeat',           '{worker}', NULL),
    ('function', 'set_awake',           '{worker}', NULL),
    ('function', 'next_wake',           '{worker}', NULL),
    ('function', 'unregister_worker',   '{worker}', NULL),

    -- A worker's jobs.
    ('function', 'claim',               '{worker}', NULL),
    ('function', 'claim_further',       '{worker}', NULL),
    ('function', 'jobs_of_worker',      '{worker}', NULL),
    ('function', 'abort_requests',      '{worker}', NULL),
    ('function', 'finish',              '{worker}', NULL),
    ('function', 'retry',               '{worker}', NULL),
    ('function', 'put_back',            '{worker}', NULL),
    ('function', 'batch_counts',        '{worker}', NULL),
    ('function', 'has_ended',           '{worker}', NULL),
    ('function', 'check_fence',         '{worker}', NULL),
    ('function', 'report_progress',     '{worker}', NULL),

    -- Workers look after each other.
    ('function', 'last_heartbeats',     '{worker}', NULL),
    ('function', 'upkeep_is_due',       '{worker}', NULL),
    ('function', 'declare_dead',        '{worker}', NULL),
    ('function', 'rescue',              '{worker}', NULL),
    ('function', 'reconcile',           '{worker}', NULL),
    ('function', 'prepare_history',     '{worker}', NULL),
    ('function', 'prune_history',       '{worker}', NULL),
    ('function', 'roll_up',             '{worker}', NULL),
    ('function', 'prune_progress',      '{worker}', NULL),
    ('function', 'prune_batches',       '{worker}', NULL),
    -- For the built-in task that deletes old jobs.
    ('function', 'delete_old_jobs',     '{worker,operator}', NULL),
    ('function', 'register_schedules',  '{worker}', NULL),
    ('function', 'schedule_progress',   '{worker}', NULL),
    ('function', 'defer_periodic',      '{worker}', NULL),

    -- People change jobs and lanes.
    ('function', 'explain',             '{operator}', NULL),
    ('function', 'explain_read_only',   '{operator,monitor}', NULL),
    ('function', 'jobs_where',          '{operator}', NULL),
    ('function', 'list_jobs',           '{operator}', NULL),
    ('function', 'search_is_cut',       '{operator}', NULL),
    -- Not for monitors: its filter compares with errors.
    ('function', 'count_jobs',          '{operator}', NULL),
    ('function', 'count_jobs_by',       '{operator,monitor}', NULL),
    ('function', 'stalled_jobs',        '{operator}', NULL),
    ('function', 'list_lanes',          '{operator}', NULL),
    ('function', 'held_for_long',       '{operator,monitor}', NULL),
    ('function', 'count_lanes',         '{operator,monitor}', NULL),
    ('function', 'lane_report',         '{operator}', NULL),
    ('function', 'list_troubled_lanes', '{operator,monitor}', NULL),
    ('function', 'list_line',           '{operator,monitor}', NULL),
    ('function', 'limited_jobs',        '{operator,monitor}', NULL),
    ('function', 'list_changes',        '{operator,monitor}', NULL),
    ('function', 'list_audit',          '{operator,monitor}', NULL),
    ('function', 'list_job_audit',      '{operator,monitor}', NULL),
    ('function', 'list_schedules',      '{operator,monitor}', NULL),
    ('function', 'retry_job',           '{operator}', NULL),
    ('function', 'retry_job_changed',   '{operator}', NULL),
    ('function', 'delete_job',          '{operator}', NULL),
    ('function', 'find_jobs',           '{operator}', NULL),
    ('function', 'preview_jobs',        '{operator}', NULL),
    ('function', 'change_jobs',         '{operator}', NULL),
    ('function', 'find_lanes',          '{operator}', NULL),
    ('function', 'preview_lanes',       '{operator}', NULL),
    ('function', 'change_lanes',        '{operator}', NULL),
    ('function', 'pause_queue',         '{operator}', NULL),
    ('function', 'resume_queue',        '{operator}', NULL),
    ('function', 'pause_task',          '{operator}', NULL),
    ('function', 'resume_task',         '{operator}', NULL),
    ('function', 'pause_lane',          '{operator}', NULL),
    ('function', 'resume_lane',         '{operator}', NULL),
    ('function', 'skip_head',           '{operator}', NULL),
    ('function', 'retry_head',          '{operator}', NULL),
    ('function', 'cancel_waiting',      '{operator}', NULL),
    ('function', 'list_limits',         '{operator,monitor}', NULL),
    ('function', 'list_limit_keys',     '{operator,monitor}', NULL),
    ('function', 'set_limit',           '{operator}', NULL),
    ('function', 'change_limit',        '{operator}', NULL),
    ('function', 'remove_limit',        '{operator}', NULL),
    ('function', 'list_groups',         '{operator,monitor}', NULL),
    ('function', 'set_group',           '{operator}', NULL),
    ('function', 'remove_group',        '{operator}', NULL),
    ('function', 'sequences_behind',    '{operator,monitor}', NULL),   -- for `queue doctor`

    -- For metrics.
    ('function', 'measure_waiting',     '{operator,monitor}', NULL),
    ('function', 'measure_lanes',       '{operator,monitor}', NULL),
    ('function', 'measure_workers',     '{operator,monitor}', NULL),
    ('function', 'measure_history',     '{operator,monitor}', NULL),
    ('function', 'measure_lane',        '{operator,monitor}', NULL),
    ('function', 'measure_line',        '{operator,monitor}', NULL),
    ('function', 'measure_paces',       '{operator,monitor}', NULL),
    ('function', 'measure_flow',        '{operator,monitor}', NULL),
    ('function', 'measure_history_size', '{operator,monitor}', NULL),
    ('function', 'ended_lately',        '{operator,monitor}', NULL),

    -- Clients check that the schema fits their version.
    ('table', 'schema_version',         '{producer,worker,operator,monitor}', NULL),
    ('table', 'applied_code',           '{producer,worker,operator,monitor}', NULL),

    ('table', 'all_jobs',               '{producer}', 'id, status'),
    ('table', 'all_jobs',               '{operator}', NULL),
    ('table', 'all_jobs',               '{monitor}',
        'id, status, queue, task, lock, priority, attempts, created_at, scheduled_at, started_at, '
        'finished_at, worker_id, fence, queueing_lock, timeout, stored_as, expires_at, '
        'limit_key, group_key, batch_id, locks, shared'),
    ('table', 'live_jobs',              '{operator}', NULL),
    ('table', 'live_jobs',              '{monitor}',
        'id, status, stored_as, queue, task, lock, priority, attempts, created_at, scheduled_at, '
        'started_at, worker_id, fence, queueing_lock, timeout, abort, expires_at, '
        'limit_key, group_key, batch_id, locks, shared'),
    ('table', 'claimed_jobs',           '{operator,monitor}', NULL),
    ('table', 'jobs',                   '{operator}', NULL),
    ('table', 'jobs',                   '{monitor}',
        'id, status, queue, task, lock, priority, attempts, created_at, scheduled_at, started_at, '
        'worker_id, fence, queueing_lock, timeout, on_retry, on_failure, abort, '
        'has_waiters, has_children, has_parents, was_attempted, lost_queueing_lock, expires_at, '
        'limit_key, group_key, batch_id, locks, shared, keeps_lanes, delayed_at'),
    ('table', 'finished_jobs',          '{operator}', NULL),
    ('table', 'finished_jobs',          '{monitor}',
        'id, status, queue, task, lock, priority, attempts, created_at, scheduled_at, started_at, '
        'finished_at, worker_id, fence, queueing_lock, timeout, on_retry, on_failure, '
        'expires_at, limit_key, group_key, batch_id, locks, shared'),
    ('table', 'batch_status',           '{producer,operator,monitor}', NULL),
    ('table', 'edges',                  '{operator,monitor}', NULL),
    ('table', 'progress',               '{operator}', NULL),
    ('table', 'progress',               '{monitor}', 'job_id, fence, done, total, updated_at'),
    ('table', 'lane_status',            '{operator}', NULL),
    ('table', 'lane_status',            '{monitor}',
        'lock, state, since, job_id, job_status, task, attempts, due_at, worker, heartbeat_at, '
        'waiting, more, stopped, stopped_at, stopped_until, stopped_by, stop_reason, '
        'failed_job_id, failed_task, readers, waits_for'),
    ('table', 'idle_lanes',             '{operator,monitor}', NULL),
    ('table', 'lanes',                  '{operator,monitor}', NULL),
    ('table', 'waits',                  '{operator,monitor}', NULL),
    ('table', 'limits',                 '{operator,monitor}', NULL),
    ('table', 'gates',                  '{operator,monitor}', NULL),
    ('table', 'gated_jobs',             '{operator,monitor}', NULL),
    ('table', 'groups',                 '{operator,monitor}', NULL),
    ('table', 'lane_audit',             '{operator,monitor}', NULL),
    ('table', 'queue_status',           '{operator,monitor}', NULL),
    ('table', 'task_status',            '{operator,monitor}', NULL),
    ('table', 'task_history',           '{operator,monitor}', NULL),
    ('table', 'queue_history',          '{operator,monitor}', NULL),
    ('table', 'rollups',                '{operator,monitor}', NULL),
    ('table', 'rollup_days',            '{operator,monitor}', NULL),
    ('table', 'workers',                '{operator,monitor}', NULL),
    ('table', 'worker_status',          '{operator,monitor}', NULL),
    ('table', 'runnable_tasks',         '{operator,monitor}', NULL),
    ('table', 'unknown_tasks',          '{operator,monitor}', NULL),
    ('table', 'halted_lanes',           '{operator,monitor}', NULL),
    ('table', 'paused_lanes',           '{operator,monitor}', NULL),
    ('table', 'paused_queues',          '{operator,monitor}', NULL),
    ('table', 'paused_tasks',           '{operator,monitor}', NULL),
    ('table', 'pauses',                 '{operator,monitor}', NULL),
    ('table', 'repaired_lanes',         '{operator,monitor}', NULL),
    ('table', 'repaired_limits',        '{operator,monitor}', NULL),
    ('table', 'miscounted_limits',      '{operator,monitor}', NULL),
    ('table', 'forgotten_batches',      '{operator,monitor}', NULL),
    ('table', 'failed_parents',         '{operator,monitor}', NULL),
    ('table', 'recent_failures',        '{operator}', NULL),
    ('table', 'recent_failures',        '{monitor}',
        'task, failed, last_at, job_id, first_at, lanes, job_ids'),
    ('table', 'shared_errors',          '{operator}', NULL),
    ('table', 'shared_errors',          '{monitor}', 'halted, retrying, job_id, task, lock'),
    ('table', 'open_transactions',      '{operator,monitor}', NULL),
    ('table', 'suspect_jobs',           '{operator,monitor}', NULL),
    ('table', 'schedules',              '{worker,operator,monitor}', NULL),
    ('table', 'surface',                '{operator,monitor}', NULL)
) AS listed (kind, name, roles, columns);

COMMENT ON VIEW surface IS 'What may be called and read from outside, and by which roles.';
COMMENT ON COLUMN surface.kind IS 'function or table; a view counts as a table.';
COMMENT ON COLUMN surface.name IS 'Its name.';
COMMENT ON COLUMN surface.roles IS 'Who may: producer, worker, operator, monitor.';
COMMENT ON COLUMN surface.columns IS 'The columns that they may read; NULL: all.';
