-- Keys of limits whose count differs from the number of running jobs, at most 1,000. A key that
-- counts too many appears full although its jobs could start, and one that counts too few lets too
-- many start. There should never be any.
--
-- Bounded: it looks at the keys of the running jobs, and at the first 1,000 keys that jobs wait
-- for. If more than 10,000 jobs run, it returns nothing.
CREATE OR REPLACE VIEW miscounted_limits AS
WITH RECURSIVE waiting(key) AS (
    (SELECT gate FROM gated_jobs WHERE gate < 'task:' ORDER BY gate LIMIT 1)
    UNION ALL
    SELECT (SELECT next.gate FROM gated_jobs AS next
            WHERE next.gate < 'task:' AND next.gate > waiting.key
            ORDER BY next.gate LIMIT 1)
    FROM waiting WHERE waiting.key IS NOT NULL
), in_hand AS MATERIALIZED (
    SELECT 'limit:' || limit_key AS key FROM jobs
    WHERE status = 'doing' ORDER BY worker_id LIMIT 10001
), running AS MATERIALIZED (
    SELECT key, count(*) AS jobs FROM in_hand WHERE key IS NOT NULL GROUP BY key
    UNION ALL
    SELECT key, 0 FROM (SELECT key FROM waiting WHERE key IS NOT NULL LIMIT 1000) AS first
), compared AS (
    SELECT key, sum(jobs)::bigint AS running, coalesce((
            SELECT own.used FROM gates AS own WHERE own.key = running.key), 0)::bigint
            AS counted
    FROM running GROUP BY key
)
SELECT substr(key, length('limit:') + 1) AS key, counted, running FROM compared
WHERE counted <> running AND (SELECT count(*) FROM in_hand) <= 10000
ORDER BY key LIMIT 1000;

COMMENT ON VIEW miscounted_limits IS
    'Keys of limits whose count differs from the number of running jobs. There should be none.';
COMMENT ON COLUMN miscounted_limits.key IS 'The key.';
COMMENT ON COLUMN miscounted_limits.counted IS 'How many jobs it counts.';
COMMENT ON COLUMN miscounted_limits.running IS 'How many jobs of it run.';
