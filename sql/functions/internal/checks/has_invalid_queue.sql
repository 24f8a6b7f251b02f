-- Returns whether a queue name contains a character that Python would not accept. Length and
-- commas are a CHECK constraint. This check would be too expensive there, because each UPDATE of
-- a job evaluates it, so it runs where names come in. Names are mostly equal, and those equal to
-- the first are checked once.
CREATE OR REPLACE FUNCTION has_invalid_queue(p_queues text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT array_to_string(p_queues[1] || array_remove(p_queues, p_queues[1]), ',')
        ~ '[^A-Za-z0-9_.:,-]'
$$;
