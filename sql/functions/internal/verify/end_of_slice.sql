-- Returns the last id of a slice of about p_size jobs after p_after, living and ended, or NULL if
-- there is none. Counts whole days of the history, so it never searches a day for p_since.
CREATE OR REPLACE FUNCTION end_of_slice(p_after bigint, p_since timestamptz, p_size integer)
    RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT max(id) FROM (
        SELECT id FROM (
            (SELECT id FROM finished_jobs
             WHERE id > p_after AND finished_at >= date_trunc('day', p_since, 'UTC')
             ORDER BY id LIMIT p_size)
            UNION ALL
            (SELECT id FROM jobs WHERE id > p_after ORDER BY id LIMIT p_size)
        ) AS near
        ORDER BY id LIMIT p_size
    ) AS slice
$$;
