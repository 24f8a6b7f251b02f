-- Puts those of these jobs that have `locks` in line in all of their lanes. The line of the first
-- lane is the index jobs_lane. Call it whenever such a job becomes `todo`, in the same transaction.
-- A job that keeps its lanes is in no line.
CREATE OR REPLACE FUNCTION join_lanes(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO waits (lock, priority, id)
    SELECT lane.lock, job.priority, job.id
    FROM jobs AS job CROSS JOIN LATERAL unnest(job.locks[2:]) AS lane(lock)
    WHERE job.id = ANY (p_ids) AND job.locks IS NOT NULL
        AND job.status IN ('todo', 'blocked', 'limited', 'paused') AND job.keeps_lanes IS NULL
    ON CONFLICT DO NOTHING;
END $$;
