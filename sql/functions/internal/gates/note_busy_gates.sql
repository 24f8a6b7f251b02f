-- Leaves a row for each of the gates p_asked that another session has locked, so that a later claim
-- checks it again (check_gates).
--   ours   the gates that we have locked
--   stuck  those that have been locked for some time. Their jobs wait there, to be out of the way
--          of others. If half of the slots stay free, the row must be a second old: several
--          workers may only have locked the gate one after the other, and the job would be woken
--          at once.
--
-- With p_waits, it waits a moment for the only gate if half of its slots stay free after p_jobs
-- starts: several workers with one limit often find it locked. It does not if another claim has
-- just waited in vain. The caller holds no gate and has nothing else to start.
CREATE OR REPLACE FUNCTION note_busy_gates(
    p_asked text[], INOUT ours text[], p_jobs integer, p_waits boolean, OUT stuck text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_busy  text[] := ARRAY(SELECT unnest(p_asked) EXCEPT SELECT unnest(ours));
    v_roomy text[] := ARRAY(   -- those of them of which half of the slots will stay free
        SELECT busy FROM unnest(v_busy) AS busy
        LEFT JOIN LATERAL (
            SELECT used FROM gates WHERE key = busy ORDER BY gates.version DESC LIMIT 1
        ) AS gate ON true
        LEFT JOIN LATERAL gate_rule(busy) AS rule ON true
        WHERE rule.slots - rule.slots / 2 - gate.used > p_jobs AND rule.rate IS NULL);
BEGIN
    IF p_waits AND v_roomy = p_asked AND cardinality(p_asked) = 1
        AND (SELECT true FROM gate_looks WHERE key = ANY (p_asked) LIMIT 1) IS NULL
    THEN
        v_busy := await_gates(p_asked);
        ours := ARRAY(SELECT unnest(p_asked) EXCEPT SELECT unnest(v_busy));
    END IF;
    stuck := ARRAY(
        SELECT busy FROM unnest(v_busy) AS busy
        WHERE (SELECT true FROM gate_looks
               WHERE key = busy AND left_at < clock() - CASE
                   WHEN busy IN (SELECT unnest(v_roomy)) THEN interval '1 s'
                   ELSE interval '0.1 s' END
               LIMIT 1));
    INSERT INTO gate_looks (key, left_at)
    SELECT busy, clock() FROM unnest(v_busy) AS busy
    WHERE busy IN (SELECT unnest(stuck))
        OR (SELECT true FROM gate_looks WHERE key = busy LIMIT 1) IS NULL;
END $$;
