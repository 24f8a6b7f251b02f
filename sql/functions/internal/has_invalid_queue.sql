-- Whether there is a character in these names that names of queues do not have, as Python says; how long they may be, and that there is
-- no comma in them, is a CHECK. This would be too dear for one, which each UPDATE of a job asks: so it is asked where names come in.
-- Mostly they are all the same, and the first is looked at for all of them.
CREATE OR REPLACE FUNCTION has_invalid_queue(p_queues text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT array_to_string(p_queues[1] || array_remove(p_queues, p_queues[1]), ',') ~ '[^A-Za-z0-9_.:,-]'
$$;
