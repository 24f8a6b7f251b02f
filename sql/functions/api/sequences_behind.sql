-- Returns the sequences that would repeat a number, and the value that they must be set to. This
-- happens after an upgrade by logical replication, which does not copy sequences. Ids would
-- collide, and fences would fall below those that were seen.
CREATE OR REPLACE FUNCTION sequences_behind()
    RETURNS TABLE (sequence text, last bigint, needed bigint)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT name, reached, used
    FROM (
        SELECT 'jobs_id_seq' AS name, CASE WHEN is_called THEN last_value ELSE 0 END AS reached,
            greatest((SELECT max(id) FROM jobs), (SELECT max(id) FROM finished_jobs)) AS used
        FROM jobs_id_seq
        UNION ALL
        SELECT 'fences', CASE WHEN is_called THEN last_value ELSE 0 END,
            greatest((SELECT max(fence) FROM jobs), (SELECT max(fence) FROM finished_jobs),
                (SELECT max(token) FROM fences_seen))
        FROM fences
        UNION ALL
        SELECT 'lane_audit_id_seq', CASE WHEN is_called THEN last_value ELSE 0 END,
            (SELECT max(id) FROM lane_audit)
        FROM lane_audit_id_seq
    ) AS counted
    WHERE used > reached
$$;
