-- Functions and views are dropped before this runs; only tables and types are left.
DROP TYPE claim_round;   -- it has rows of jobs
DROP TABLE applied_code, cell, granted_roles, fences_seen, progress, uncounted_ends, rollup_days,
    rollups, finished_jobs, schedules, workers, lane_audit, lanes, groups, limits, gates,
    gate_looks, jobs, edges, ends, waits, batches, batch_gates, batch_events, pauses;
DROP SEQUENCE fences;
DROP DOMAIN queue_name, task_name, lock_name, queueing_lock_name, job_args, job_headers,
    job_timeout, due_time, expiry_time, limit_name, group_name;
DROP TYPE job_options, job_lanes, job_run, observation, job_filter;
DROP TYPE lane_state, job_status, retry_policy, failure_policy, conflict_policy,
    parent_policy, batch_event, pause_kind;
