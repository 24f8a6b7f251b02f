-- Returns a job of each key whose limit holds jobs back, at most p_limit. It looks at the first
-- 1,000 jobs that wait for their limits.
CREATE OR REPLACE FUNCTION limited_jobs(p_limit integer) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT job.id FROM (
        SELECT DISTINCT ON (gate) gate, id FROM (
            SELECT id, gate FROM gated_jobs WHERE gate < 'task:'
            ORDER BY gate LIMIT 1000
        ) AS waiting
        ORDER BY gate, id LIMIT p_limit) AS job
    ORDER BY job.gate
$$;
