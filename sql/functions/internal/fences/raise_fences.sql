-- Raises the fence counter to this timeline. An asynchronous standby may not know the last fences
-- of the old primary, so the counter moves above any that the old primary can have given. Callers
-- take turns, and only the first one sets the counter, because two would give the same fences. A
-- rollback does not undo setval.
CREATE OR REPLACE FUNCTION raise_fences(p_timeline bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_fence bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(lock_key('fences'));
    v_fence := nextval('fences');
    IF (v_fence >> 40) & 65535 <> p_timeline THEN
        PERFORM setval('fences', next_epoch(v_fence, p_timeline));
    END IF;
END $$;
