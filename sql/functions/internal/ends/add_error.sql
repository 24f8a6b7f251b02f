-- Appends an error to the last ten that a job keeps. Records which attempt it was, when the attempt
-- began and ended, and on which worker. The planner inlines it, so it costs a job without an error
-- nothing.
CREATE OR REPLACE FUNCTION add_error(
    p_errors jsonb, p_error jsonb, p_attempt integer, p_started_at timestamptz, p_worker uuid
) RETURNS jsonb
LANGUAGE sql STABLE
AS $$
    SELECT CASE
        WHEN p_error IS NULL THEN p_errors
        ELSE CASE WHEN jsonb_array_length(p_errors) < 10 THEN p_errors ELSE p_errors - 0 END
            || jsonb_build_array(describe_attempt(p_attempt, p_started_at, p_worker) || p_error)
    END
$$;
