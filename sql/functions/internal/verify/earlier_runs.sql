-- Returns what the errors of a job tell about its runs: when the first one began, and from when
-- until when one overlapped the next (NULL: none did). p_started_at is the start of the last one.
CREATE OR REPLACE FUNCTION earlier_runs(
    p_errors jsonb, p_started_at timestamptz,
    OUT began_at timestamptz, OUT clash_from timestamptz, OUT clash_until timestamptz
)
LANGUAGE sql STABLE AS $$
    SELECT min(run.began_at),
        (array_agg(next_at ORDER BY ended_at - next_at DESC) FILTER (WHERE ended_at > next_at))[1],
        (array_agg(ended_at ORDER BY ended_at - next_at DESC) FILTER (WHERE ended_at > next_at))[1]
    FROM (
        SELECT error.began_at, error.ended_at,
            lead(error.began_at, 1, p_started_at) OVER (ORDER BY error.began_at) AS next_at
        FROM (
            SELECT (error ->> 'started_at')::timestamptz AS began_at,
                (error ->> 'at')::timestamptz AS ended_at
            FROM jsonb_array_elements(p_errors) AS error
        ) AS error
        WHERE error.began_at < p_started_at
    ) AS run
$$;
