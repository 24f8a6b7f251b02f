-- Sets jobs with this status that wait for no other job `todo`, and the others `pending`. The
-- caller has locked them. Each is its own wake-up token, as after promote.
CREATE OR REPLACE FUNCTION free_children(p_children bigint[], p_status job_status) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queues text[];
    v_joining bigint[];   -- jobs with `locks`
BEGIN
    WITH judged AS (
        UPDATE jobs
        SET status = CASE WHEN waits THEN 'pending'::job_status ELSE 'todo' END,
            has_parents = nullif(waits, false),
            back_id = CASE WHEN NOT waits THEN nextval('jobs_id_seq') END,
            -- It is due only now: it could not have started before.
            scheduled_at = CASE WHEN p_status = 'pending' THEN clock() ELSE jobs.scheduled_at END
        FROM (
            SELECT child, (SELECT true FROM edges WHERE edges.child = given.child LIMIT 1)
                IS NOT NULL AS waits
            FROM unnest(p_children) AS given(child)
        ) AS child
        WHERE jobs.id = ANY (ARRAY[child.child]) AND jobs.status = p_status
            AND (NOT waits OR p_status <> 'pending')
        RETURNING jobs.id, jobs.queue, jobs.status, jobs.locks
    )
    SELECT array_agg(DISTINCT queue::text), array_agg(id) FILTER (WHERE locks IS NOT NULL)
    INTO v_queues, v_joining FROM judged WHERE status = 'todo';
    PERFORM join_lanes(v_joining) WHERE v_joining IS NOT NULL;
    PERFORM notify_workers(v_queues) WHERE v_queues IS NOT NULL;
END $$;
