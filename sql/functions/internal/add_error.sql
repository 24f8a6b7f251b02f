-- Appends an error to those that a job keeps: the last ten.
CREATE OR REPLACE FUNCTION add_error(p_errors jsonb, p_error jsonb) RETURNS jsonb
LANGUAGE sql STABLE
AS $$
    SELECT CASE
        WHEN p_error IS NULL THEN p_errors
        WHEN jsonb_array_length(p_errors) < 10 THEN p_errors || jsonb_build_array(p_error)
        ELSE (p_errors - 0) || jsonb_build_array(p_error)
    END
$$;
