-- Returns whether a job with this status is in the line of its lane. Inlined, like has_status.
CREATE OR REPLACE FUNCTION may_wait(p_status job_status) RETURNS boolean
LANGUAGE sql IMMUTABLE RETURN p_status IN ('todo', 'blocked', 'limited', 'paused');
