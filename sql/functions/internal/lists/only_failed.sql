-- Returns whether failed jobs are the only ended jobs that a list asks for.
CREATE OR REPLACE FUNCTION only_failed(p_statuses job_status[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce('failed' = ANY (p_statuses)
        AND NOT p_statuses && '{succeeded,cancelled,aborted}', false)
$$;
