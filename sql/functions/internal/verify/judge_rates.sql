-- Returns the starts that exceeded the rate of their limit (`limit`): from an earlier start on,
-- more jobs of the key started than the rate allows in that time, and its burst. Only the last
-- start of a job is known, and only starts of the same slice are compared.
CREATE OR REPLACE FUNCTION judge_rates(p_runs job_run[], p_after bigint, p_calls interval)
    RETURNS SETOF observation
LANGUAGE sql STABLE AS $$
    WITH key AS MATERIALIZED (
        SELECT named.name, rule.rate / extract(epoch FROM rule.period)::float8 AS pace, rule.burst,
            coalesce(limit_changed_at(named.name) + p_calls, '-infinity') AS since
        FROM (SELECT DISTINCT run.limit_key AS name FROM unnest(p_runs) AS run
              WHERE run.limit_key IS NOT NULL) AS named
        CROSS JOIN LATERAL find_limit(named.name) AS rule
        WHERE rule.rate IS NOT NULL
    ), start AS MATERIALIZED (
        SELECT run.id, run.locks[1] AS lock, key.name, run.started_at, burst, pace,
            row_number() OVER line - pace * extract(epoch FROM run.started_at)::float8 AS excess
        FROM unnest(p_runs) AS run JOIN key ON key.name = run.limit_key
        WHERE run.ran AND run.started_at > key.since
        WINDOW line AS (PARTITION BY key.name ORDER BY run.started_at, run.id)
    ), line AS (
        SELECT *, min(excess) OVER (PARTITION BY name ORDER BY started_at, id) AS least FROM start
    )
    SELECT 'limit', 'broken', NULL, line.lock, line.id, first.id,
        format('started at %s, as number %s of the limit %s since %s', line.started_at,
            round(line.excess - line.least + 1
                + line.pace * extract(epoch FROM line.started_at - first.started_at)::float8),
            line.name, first.started_at),
        line.started_at, first.started_at
    FROM line CROSS JOIN LATERAL (
        SELECT start.id, start.started_at FROM start
        WHERE start.name = line.name AND start.excess = line.least LIMIT 1
    ) AS first
    WHERE line.excess - line.least + 1 > line.burst + 0.01 AND line.id > p_after
$$;
