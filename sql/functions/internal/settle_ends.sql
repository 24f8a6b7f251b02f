-- settle_ends: looks after the children of jobs that have ended. Children whose last parent has
-- ended become `todo`. It waits for nobody: the row of an end stays for the next claim if somebody
-- has one of its children locked. Bounded: p_limit ends, and p_children children in each round. A
-- child that is cancelled tells its own children, for the next round.
--
-- The children are locked first and their edges counted afterwards, in a new statement, so of two
-- calls that see the last two ends the later one frees the child. A parent that lives again has
-- marked itself, so its child goes on waiting.
CREATE OR REPLACE FUNCTION settle_ends(p_limit integer, p_most integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_ends  record;
    v_edges record;
    v_ours  bigint[];
BEGIN
    FOR round IN 1..20 LOOP
        WITH taken AS MATERIALIZED (
            SELECT seq, job_id, status FROM ends ORDER BY seq LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), last AS (
            SELECT DISTINCT ON (job_id) job_id, status FROM taken ORDER BY job_id, seq DESC
        )
        SELECT (SELECT array_agg(seq) FROM taken) AS seqs, array_agg(job_id) AS parents,
            array_agg(status) AS statuses
        INTO v_ends FROM last;
        EXIT WHEN v_ends.seqs IS NULL;

        v_ours := ARRAY(
            SELECT jobs.id FROM jobs
            WHERE jobs.id = ANY (ARRAY(
                SELECT edges.child FROM edges
                WHERE edges.parent = ANY (v_ends.parents) AND NOT edges.failed LIMIT p_most))
            ORDER BY jobs.id
            FOR UPDATE SKIP LOCKED
        );
        SELECT array_agg(edges.parent) AS parents, array_agg(edges.child) AS children,
            array_agg(ended.status) AS outcomes
        INTO v_edges
        FROM unnest(v_ends.parents, v_ends.statuses) AS ended(parent, status)
        JOIN edges ON edges.parent = ended.parent
        WHERE coalesce(edges.child IN (SELECT unnest(v_ours)), false) AND NOT edges.failed
            AND (SELECT true FROM jobs WHERE jobs.id = ended.parent LIMIT 1) IS NULL;
        PERFORM cut_edges(v_edges.parents, v_edges.children, v_edges.outcomes);
        PERFORM free_children(v_ours, 'pending');

        DELETE FROM ends
        WHERE seq = ANY (v_ends.seqs) AND (
            (SELECT true FROM jobs WHERE jobs.id = ends.job_id LIMIT 1)
            OR (SELECT true FROM edges
                WHERE edges.parent = ends.job_id AND NOT edges.failed LIMIT 1) IS NULL);
        EXIT WHEN NOT FOUND;
    END LOOP;
END $$;
