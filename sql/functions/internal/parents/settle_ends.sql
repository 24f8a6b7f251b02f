-- settle_ends: handles the children of jobs that have ended. Children whose last parent has ended
-- become `todo`. Never waits: if another session has a child locked, the row of the end stays for a
-- later claim, and the rows behind it are handled. A cancelled child announces its end to its own
-- children, which are handled in the next round.
--
-- Bounded: looks at p_most children at most, including locked ones, in at most 20 rounds of p_limit
-- ends. An open transaction may keep children locked for hours, so if all children of an end are
-- locked, it backs off.
--
-- The children are locked first and their edges counted afterwards, in a new statement, so of two
-- calls that see the last two ends, the later one frees the child. A parent that is live again has
-- marked itself, so its child keeps waiting. If it then succeeds, its end also cuts the edges that
-- its failure has left (`hold`). Of two ends of one job, the newer one counts.
--
-- A claim can end jobs itself: they expire, or their own parents have failed. It handles their
-- children at once, but leaves the rows of these ends to a later claim: until it commits, other
-- sessions see such a job as live, and may add children that wait for it. The age of a row is at
-- most 0 if it was written by this transaction or one that has begun since.
--
-- The pairs are read once and looked up by key afterwards, so calls that work through the many
-- children of one parent do not all read all of them.
CREATE OR REPLACE FUNCTION settle_ends(p_limit integer, p_most integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now   timestamptz := clock();
    v_at    timestamptz := '-infinity';   -- the last end that was taken
    v_seq   bigint := 0;
    v_left  bigint := p_most;   -- how many more children it may look at
    v_ends  record;
    v_ours  record;   -- edges whose children we have locked
    v_edges record;
BEGIN
    FOR round IN 1..20 LOOP
        WITH taken AS MATERIALIZED (
            SELECT seq, job_id, status, look_at FROM ends
            WHERE (look_at, seq) > (v_at, v_seq) AND look_at <= v_now
            ORDER BY look_at, seq LIMIT p_limit FOR UPDATE SKIP LOCKED
        ), last AS (
            SELECT DISTINCT ON (job_id) job_id, status FROM taken ORDER BY job_id, seq DESC
        )
        SELECT (SELECT array_agg(seq ORDER BY look_at, seq) FROM taken) AS seqs,
            (SELECT max(look_at) FROM taken) AS at,
            array_agg(job_id) AS parents, array_agg(status) AS statuses
        INTO v_ends FROM last;
        EXIT WHEN v_ends.seqs IS NULL;
        v_at := v_ends.at;
        v_seq := v_ends.seqs[cardinality(v_ends.seqs)];

        SELECT array_agg(parent) FILTER (WHERE is_ours) AS parents,
            array_agg(child) FILTER (WHERE is_ours) AS children, count(*) AS looked,
            array_agg(DISTINCT parent) AS all_parents
        INTO v_ours
        FROM (
            SELECT near.parent, near.child, try_lock_job(near.child) AS is_ours
            FROM (
                SELECT edge.parent, edge.child
                FROM unnest(v_ends.parents, v_ends.statuses) AS ended(parent, status)
                CROSS JOIN LATERAL (
                    SELECT edges.parent, edges.child FROM edges
                    WHERE edges.parent = ended.parent
                        AND (NOT edges.failed OR ended.status = 'succeeded')
                    LIMIT v_left
                ) AS edge
                LIMIT v_left
            ) AS near
        ) AS seen;
        v_left := v_left - v_ours.looked;
        SELECT array_agg(ours.parent) AS parents, array_agg(ours.child) AS children,
            array_agg((SELECT ends.status FROM ends WHERE ends.job_id = ours.parent
                       ORDER BY ends.seq DESC LIMIT 1)) AS outcomes
        INTO v_edges
        FROM unnest(v_ours.parents, v_ours.children) AS ours(parent, child)
        WHERE (SELECT true FROM jobs WHERE jobs.id = ours.parent LIMIT 1) IS NULL;
        PERFORM cut_edges(v_edges.parents, v_edges.children, v_edges.outcomes);
        PERFORM free_children(ARRAY(SELECT DISTINCT unnest(v_ours.children)), 'pending');

        DELETE FROM ends
        WHERE seq = ANY (v_ends.seqs) AND age(ends.xmin) > 0 AND (
            (SELECT true FROM jobs WHERE jobs.id = ends.job_id LIMIT 1)
            OR (SELECT true FROM ends AS newer
                WHERE newer.job_id = ends.job_id AND newer.seq > ends.seq LIMIT 1)
            OR (SELECT true FROM edges
                WHERE edges.parent = ends.job_id
                    AND (NOT edges.failed OR ends.status = 'succeeded') LIMIT 1) IS NULL);
        UPDATE ends SET look_at = v_now
            + least(greatest((v_now - told_at) / 10, interval '10 ms'), interval '2 s')
        WHERE seq = ANY (v_ends.seqs) AND coalesce(job_id IN (
            SELECT unnest(v_ours.all_parents) EXCEPT SELECT unnest(v_ours.parents)), false);
        EXIT WHEN v_left <= 0;
    END LOOP;
END $$;
