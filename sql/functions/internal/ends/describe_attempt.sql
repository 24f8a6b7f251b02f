-- Returns what an error records about the attempt that it ends. Names the worker if it is still
-- registered; a dead one has no row.
CREATE OR REPLACE FUNCTION describe_attempt(
    p_attempt integer, p_started_at timestamptz, p_worker uuid
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN jsonb_build_object('attempt', p_attempt, 'started_at', p_started_at, 'at', clock())
        || coalesce(
            (SELECT jsonb_build_object('worker', name) FROM workers WHERE id = p_worker), '{}');
END $$;
