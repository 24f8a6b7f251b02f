-- Returns the statuses with which `jobs` may store jobs that people see with one of these (see
-- live_jobs). NULL means any.
CREATE OR REPLACE FUNCTION stored_statuses(p_statuses job_status[]) RETURNS job_status[]
LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT p_statuses
        || CASE WHEN 'blocked' = ANY (p_statuses) THEN '{todo}' ELSE '{}' END::job_status[]
        || CASE WHEN 'claimed' = ANY (p_statuses) THEN '{doing}' ELSE '{}' END::job_status[]
$$;
