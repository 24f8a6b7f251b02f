-- resume_task: lets a paused task continue. Returns false if it was not paused. Its jobs start in
-- the order in which they would have started.
--
-- It is quick however many jobs wait: the next claims wake them, as many at a time as a claim can.
CREATE OR REPLACE FUNCTION resume_task(p_task text, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$
    SELECT resume('task', p_task, p_by)
$$;
