-- Adds a worker process and returns its id, which is random and new with each start. If the worker
-- was taken for dead and registers again, p_age is the time since its first registration. Its
-- heartbeat interval and the days it was told to keep the history are recorded, so that others
-- neither declare it dead too soon nor drop what it keeps. p_clock is the time by its own clock.
CREATE OR REPLACE FUNCTION register_worker(
    p_name text, p_hostname text, p_pid integer, p_queues text[], p_concurrency integer,
    p_tasks text[] DEFAULT NULL, p_schedules text[] DEFAULT NULL,
    p_heartbeat_every interval DEFAULT NULL, p_keep_history double precision DEFAULT NULL,
    p_age interval DEFAULT '0', p_clock timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE sql AS $$
    INSERT INTO workers (id, name, hostname, pid, queues, tasks, schedules, concurrency,
        started_at, heartbeat_at, loop_turned_at, heartbeat_every, keep_history,
        clock_ahead)
    VALUES (gen_random_uuid(), p_name, p_hostname, p_pid, p_queues, p_tasks, p_schedules,
        p_concurrency, clock() - p_age, clock(), clock(), p_heartbeat_every, p_keep_history,
        p_clock - clock_timestamp())
    RETURNING id
$$;
