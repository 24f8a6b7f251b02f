-- Returns how often a job's worker died, as far as its errors go back.
CREATE OR REPLACE FUNCTION times_lost(p_errors jsonb) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (SELECT count(*) FROM jsonb_array_elements(p_errors) AS error WHERE error ? 'lost');
END $$;
