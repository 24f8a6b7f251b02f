-- Returns the sequences that would repeat a number, and the values to set them to. This happens
-- after an upgrade by logical replication, which does not copy sequences. Ids would collide, and
-- fences would fall below earlier ones.
--
-- Fences have no index, so it looks at samples of 10,000 rows that are likely to have high ones. If
-- jobs have run since the upgrade, these are among the oldest. It reads all rows only if a sample
-- shows that the sequence is behind.
CREATE OR REPLACE FUNCTION sequences_behind()
    RETURNS TABLE (sequence text, last bigint, needed bigint)
LANGUAGE sql STABLE AS $$
    SELECT name, reached, used
    FROM (
        SELECT 'jobs_id_seq' AS name, CASE WHEN is_called THEN last_value ELSE 0 END AS reached,
            greatest((SELECT max(id) FROM jobs), (SELECT max(id) FROM finished_jobs)) AS used
        FROM jobs_id_seq
        UNION ALL
        SELECT 'fences', reached, CASE WHEN reached < (
            SELECT max(fence) FROM (
                (SELECT fence FROM jobs WHERE status = 'doing' ORDER BY worker_id LIMIT 10000)
                UNION ALL
                (SELECT fence FROM jobs WHERE status = 'scheduled' ORDER BY scheduled_at
                    LIMIT 10000)
                UNION ALL (SELECT fence FROM finished_jobs ORDER BY id DESC LIMIT 10000)
                UNION ALL (SELECT fence FROM finished_jobs ORDER BY id LIMIT 10000)
                UNION ALL (SELECT token FROM fences_seen LIMIT 10000)
            ) AS likely
        ) THEN greatest((SELECT max(fence) FROM jobs), (SELECT max(fence) FROM finished_jobs),
            (SELECT max(token) FROM fences_seen)) END
        FROM (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS reached FROM fences) AS at
        UNION ALL
        SELECT 'lane_audit_id_seq', CASE WHEN is_called THEN last_value ELSE 0 END,
            (SELECT max(id) FROM lane_audit)
        FROM lane_audit_id_seq
        UNION ALL
        SELECT 'batches_id_seq', CASE WHEN is_called THEN last_value ELSE 0 END,
            (SELECT max(id) FROM batches)
        FROM batches_id_seq
    ) AS counted
    WHERE used > reached
$$;
