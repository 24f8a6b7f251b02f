-- Returns the tasks that are paused. An expired pause does not count.
CREATE OR REPLACE FUNCTION paused_task_names() RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT ARRAY(SELECT task::text FROM task_pauses WHERE (until > clock()) IS NOT FALSE)
$$;
