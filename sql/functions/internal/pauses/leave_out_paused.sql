-- Returns those of these queues that are not paused. An expired pause does not count.
CREATE OR REPLACE FUNCTION leave_out_paused(p_queues text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_paused text[] := ARRAY(
        SELECT queue FROM queue_pauses WHERE (until > clock()) IS NOT FALSE);
BEGIN
    RETURN CASE WHEN v_paused = '{}' THEN p_queues
        WHEN '' IN (SELECT unnest(v_paused)) THEN '{}'
        ELSE ARRAY(SELECT unnest(p_queues) EXCEPT SELECT unnest(v_paused)) END;
END $$;
