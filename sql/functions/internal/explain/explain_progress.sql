-- Returns how far a running job is, if this attempt has reported it.
CREATE OR REPLACE FUNCTION explain_progress(p_id bigint, p_fence bigint)
    RETURNS TABLE (reason text, detail text, unblock text)
LANGUAGE sql STABLE AS $$
    SELECT 'progress',
        done || coalesce(' of ' || total, '') || ' at ' || updated_at || coalesce(': ' || text, ''),
        NULL
    FROM progress WHERE job_id = p_id AND fence = p_fence
$$;
