-- Returns whether a job ended in the last hour. It would be among those that were deferred last.
CREATE OR REPLACE FUNCTION ended_lately() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT finished_at FROM finished_jobs ORDER BY id DESC LIMIT 100) AS newest
        WHERE finished_at > clock() - interval '1 hour')
$$;
