-- Returns how many of the best p_limit free jobs, or of the best p_limit lane tokens, are in each
-- of these queues, so that a claim of many queues reads and locks no more than it takes. With
-- p_after, counts only free jobs of the priority next to it, behind that id (see claim_further).
--
-- Reads twice its share of p_limit in each queue, and four times as much where all of these are
-- among the best. The total is a multiple of p_limit, however many queues there are.
CREATE OR REPLACE FUNCTION front_shares(
    p_queues text[], p_limit integer, p_lanes boolean,
    p_priorities integer[] DEFAULT NULL, p_after bigint[] DEFAULT NULL
) RETURNS integer[]
LANGUAGE plpgsql AS $$
DECLARE
    v_reads  integer[] := array_fill(
        least(p_limit, 2 * p_limit / greatest(cardinality(p_queues), 1) + 1),
        ARRAY[cardinality(p_queues)]);
    v_wider  integer[];
    v_result integer[];
BEGIN
    LOOP
        WITH asked AS (
            SELECT * FROM unnest(p_queues, v_reads, p_priorities, p_after) WITH ORDINALITY
                AS q(queue, reads, priority, after, place)
        ), best AS (
            SELECT asked.place, front.id
            FROM asked
            CROSS JOIN LATERAL (
                (SELECT jobs.id, jobs.priority FROM jobs
                 WHERE NOT p_lanes AND p_after IS NULL
                   AND jobs.status = 'todo' AND jobs.lock IS NULL
                   AND jobs.group_key IS NULL AND jobs.queue = asked.queue
                 ORDER BY jobs.priority DESC, jobs.id
                 LIMIT asked.reads)
                UNION ALL
                (SELECT jobs.id, jobs.priority FROM jobs
                 WHERE p_lanes
                   AND jobs.status = 'todo' AND jobs.lock IS NOT NULL
                   AND jobs.group_key IS NULL AND jobs.queue = asked.queue
                 ORDER BY jobs.priority DESC, jobs.id
                 LIMIT asked.reads)
                UNION ALL
                (SELECT jobs.id, jobs.priority FROM jobs
                 WHERE p_after IS NOT NULL
                   AND jobs.status = 'todo' AND jobs.lock IS NULL
                   AND jobs.group_key IS NULL AND jobs.queue = asked.queue
                   AND jobs.priority = asked.priority AND jobs.id > asked.after
                 ORDER BY jobs.id
                 LIMIT asked.reads)
            ) AS front
            ORDER BY front.priority DESC, front.id
            LIMIT p_limit
        ), counted AS (
            SELECT entry.place, count(entry.id)::integer AS share, max(entry.reads) AS reads
            FROM (
                SELECT asked.place, asked.reads, NULL::bigint AS id FROM asked
                UNION ALL
                SELECT best.place, NULL, best.id FROM best
            ) AS entry
            GROUP BY entry.place
        )
        SELECT array_agg(share ORDER BY place),
            array_agg(CASE WHEN share < reads THEN reads ELSE least(p_limit, 4 * reads) END
                ORDER BY place)
        INTO v_result, v_wider FROM counted;
        EXIT WHEN v_wider IS NOT DISTINCT FROM v_reads OR v_wider IS NULL;
        v_reads := v_wider;
    END LOOP;
    RETURN v_result;
END $$;
