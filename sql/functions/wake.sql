-- Wakes workers that may be asleep: those of the named queues ({}: nobody), or all (NULL). At most one notification a call, sent at
-- commit. It carries no data but queue names; nothing depends on its arrival, workers also poll.
CREATE OR REPLACE FUNCTION wake(p_queues text[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pg_notify(current_schema(), CASE WHEN length(names) < 7000 THEN names ELSE '' END)
    FROM (SELECT coalesce(string_agg(DISTINCT queue, ','), '') AS names FROM unnest(p_queues) AS queue) AS list
    WHERE p_queues IS NULL OR p_queues <> '{}';
END $$;
