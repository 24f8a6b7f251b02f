-- resume_queue: lets a paused queue continue (NULL: ends the pause of all queues, while those of
-- single queues stay). Returns false if it was not paused.
CREATE OR REPLACE FUNCTION resume_queue(p_queue text, p_by text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$
    SELECT resume('queue', coalesce(p_queue, ''), p_by)
$$;
