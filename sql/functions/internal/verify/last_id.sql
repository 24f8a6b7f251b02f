-- Returns the highest id of the jobs that live, or ended since p_since.
CREATE OR REPLACE FUNCTION last_id(p_since timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT greatest((SELECT max(id) FROM jobs), (
        SELECT max(id) FROM finished_jobs WHERE finished_at >= date_trunc('day', p_since, 'UTC')))
$$;
