-- Returns which jobs a bulk would change, and what else is in their lanes. Counts stop at p_limit.
--   jobs_count   how many jobs match
--   more         more than p_limit match, and the numbers are those of the first p_limit
--   unlocked     how many of them have no lock
--   lanes        how many lanes the others are in
--   waiting      other jobs that wait in these lanes, up to p_limit
--   halted_by    how many of these lanes are halted by one of the jobs
--   halted       how many are halted by another job
--   paused       how many are paused
--   sample       the first 20 of the jobs
--   until        the server's time: pass it to the bulk as `before`, to change only these jobs
CREATE OR REPLACE FUNCTION preview_jobs(
    p_filter    job_filter,
    p_limit     integer,
    p_backwards boolean DEFAULT false,
    p_priority  integer DEFAULT NULL,   -- of a move, like p_queue
    p_queue     text    DEFAULT NULL,
    OUT jobs_count bigint, OUT more boolean, OUT unlocked bigint, OUT lanes bigint,
    OUT waiting bigint, OUT halted_by bigint, OUT halted bigint, OUT paused bigint,
    OUT sample bigint[], OUT until timestamptz
)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_ids   bigint[];
    v_locks text[];
    v_mine  text[];
BEGIN
    until := clock();
    SELECT coalesce(array_agg(id ORDER BY place), '{}'),
        array_agg(lock ORDER BY place)
    INTO v_ids, v_locks
    FROM find_jobs(p_filter, p_limit + 1, p_backwards,
        p_priority => p_priority, p_queue => p_queue) WITH ORDINALITY
        AS found(id, lock, priority, place);
    more := cardinality(v_ids) > p_limit;
    v_ids := v_ids[:p_limit];
    v_locks := v_locks[:p_limit];
    jobs_count := cardinality(v_ids);
    sample := v_ids[:20];
    unlocked := (SELECT count(*) FROM unnest(v_locks) AS lock WHERE lock IS NULL);
    v_mine := ARRAY(SELECT DISTINCT lock FROM unnest(v_locks) AS lock WHERE lock IS NOT NULL);
    lanes := cardinality(v_mine);
    SELECT count(*) INTO waiting FROM (
        SELECT FROM unnest(v_mine) AS mine(lock)
        CROSS JOIN LATERAL line_of(mine.lock, p_limit + cardinality(v_ids)) AS behind
        WHERE behind.id NOT IN (SELECT unnest(v_ids))
        LIMIT p_limit
    ) AS counted;
    SELECT count(*) FILTER (WHERE stopped = 'halted' AND failed_job_id IN (SELECT unnest(v_ids))),
        count(*) FILTER (
            WHERE stopped = 'halted' AND failed_job_id NOT IN (SELECT unnest(v_ids))),
        count(*) FILTER (WHERE stopped = 'paused')
    INTO halted_by, halted, paused
    FROM unnest(v_mine) AS mine(lock)
    CROSS JOIN LATERAL (
        SELECT stopped, failed_job_id FROM lanes AS lane WHERE lane.lock = mine.lock LIMIT 1
    ) AS stop;
END $$;
