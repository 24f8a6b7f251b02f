-- Returns whether a queue name contains a character that Python would reject. Length and commas
-- have a CHECK constraint, but every UPDATE of a job would evaluate this check too, which is too
-- expensive. It therefore runs only where names come in. Names equal to the first one are checked
-- once, because most are.
CREATE OR REPLACE FUNCTION has_invalid_queue(p_queues text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT array_to_string(p_queues[1] || array_remove(p_queues, p_queues[1]), ',')
        ~ '[^A-Za-z0-9_.:,-]'
$$;
