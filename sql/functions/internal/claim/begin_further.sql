-- begin_further: the first stage of a claim that does not begin at the front. Refuses a worker that
-- is not registered. Returns the paused tasks, or NULL if only a full claim may start jobs, since a
-- queue is paused or groups take turns.
CREATE OR REPLACE FUNCTION begin_further(p_worker uuid, p_queues text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_settings();
    PERFORM require_registered(p_worker);
    IF (SELECT true FROM jobs WHERE status = 'todo' AND group_key IS NOT NULL
        ORDER BY jobs.queue LIMIT 1) IS TRUE AND (p_queues IS NULL OR groups_wait(p_queues)) THEN
        RETURN NULL;
    END IF;
    IF (SELECT true FROM pauses LIMIT 1) THEN
        RETURN CASE WHEN NOT EXISTS (SELECT FROM paused_queues)
            THEN ARRAY(SELECT task FROM paused_tasks) END;
    END IF;
    RETURN '{}';
END $$;
