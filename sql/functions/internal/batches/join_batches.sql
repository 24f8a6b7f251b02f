-- Counts jobs that are about to be created; p_batches names the batch of each (NULL: none). Keeps
-- these batches from ending until the caller's transaction is over. Waits only for a claim that is
-- ending one of them.
CREATE OR REPLACE FUNCTION join_batches(p_batches bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_wanted bigint[] := ARRAY(
        SELECT DISTINCT batch FROM unnest(p_batches) AS batch WHERE batch IS NOT NULL);
    v_joined bigint[] := ARRAY(
        SELECT batch_id FROM batch_gates WHERE batch_id = ANY (v_wanted)
        ORDER BY batch_id FOR KEY SHARE);
    v_lost   bigint := (SELECT min(batch) FROM (
        SELECT unnest(v_wanted) EXCEPT SELECT unnest(v_joined)) AS lost(batch));
BEGIN
    IF v_lost IS NOT NULL THEN
        RAISE EXCEPTION 'batch: %', CASE
            WHEN EXISTS (SELECT FROM batches WHERE id = v_lost)
                THEN 'batch ' || v_lost || ' has ended, so no job can join it'
            ELSE 'there is no batch ' || v_lost || '; give the id of a batch that was opened' END
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM note_batch_event(batch, 'joined', count(*))
    FROM unnest(p_batches) AS batch WHERE batch IS NOT NULL GROUP BY batch ORDER BY batch;
END $$;
