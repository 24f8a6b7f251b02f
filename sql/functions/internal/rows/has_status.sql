-- Returns whether a job has this status. Inlined. The server parses it once, where it would look in
-- each statement for the `=` that fits an enum.
CREATE OR REPLACE FUNCTION has_status(p_status job_status, p_wanted job_status) RETURNS boolean
LANGUAGE sql IMMUTABLE RETURN p_status = p_wanted;
