-- Returns those of these queues that are not paused.
CREATE OR REPLACE FUNCTION leave_out_paused(p_queues text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_paused text[] := ARRAY(SELECT queue FROM paused_queues);
BEGIN
    RETURN CASE WHEN v_paused = '{}' THEN p_queues
        WHEN array_position(v_paused, NULL) IS NOT NULL THEN '{}'   -- all queues are paused
        ELSE ARRAY(SELECT unnest(p_queues) EXCEPT SELECT unnest(v_paused)) END;
END $$;
