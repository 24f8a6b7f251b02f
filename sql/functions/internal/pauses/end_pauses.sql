-- Deletes the pauses that are over, and asks claims to open the gates of their tasks. Returns
-- whether it has asked. Never waits.
--
-- A look is left even if no job seems to wait: a claim that is under way may be closing the gate.
-- Either it has the gate locked, so the look stays until it has committed, or it will read the
-- pause after it has locked the gate, and find none.
CREATE OR REPLACE FUNCTION end_pauses() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    WITH over AS MATERIALIZED (
        SELECT kind, name FROM pauses WHERE until <= clock() FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM pauses USING over
        WHERE pauses.kind = over.kind AND pauses.name = over.name
        RETURNING pauses.kind, pauses.name
    )
    INSERT INTO gate_looks (key, left_at)
    SELECT task_gate(name), clock() FROM gone WHERE kind = 'task';
    RETURN FOUND;
END $$;
