-- Decides what becomes of due jobs that come after others. The caller has locked them. A job whose
-- parents have ended becomes `todo`. Otherwise it is `pending` until settle_ends has seen the last
-- end, or it is cancelled because a parent did not succeed.
--
-- The live parents are marked first and checked afterwards, in a new statement. A parent that ended
-- before the mark is then seen in the history, and one that ends later sees the mark. Never waits:
-- if another session has a parent locked, the children are left for a later claim.
--
-- Bounded: about 1,000 children and parents in total. The rest are left for the next claim.
--
-- A parent in neither table counts as succeeded, because its history may have been deleted or never
-- written. But an open transaction may still add it. That transaction's id is lower than that of
-- the first claim that looks for the parent, provided that the claim has not written before. All
-- transactions with lower ids must therefore be over in the snapshot that misses the parent.
CREATE OR REPLACE FUNCTION await_parents(p_children bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_own   bigint := pg_current_xact_id()::text::bigint;
    v_seen  record;
    v_count bigint := 0;
BEGIN
    FOR place IN 1..cardinality(p_children) LOOP
        v_count := v_count + 1
            + (SELECT count(*) FROM edges WHERE edges.child = p_children[place]);
        IF v_count >= 1000 THEN
            p_children := p_children[:place];
            EXIT;
        END IF;
    END LOOP;

    WITH parent AS MATERIALIZED (
        SELECT jobs.id FROM jobs
        WHERE jobs.id = ANY (ARRAY(
                SELECT edges.parent FROM edges WHERE edges.child = ANY (p_children)))
            AND jobs.has_children IS NOT TRUE
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE jobs SET has_children = true WHERE jobs.id = ANY (ARRAY(SELECT parent.id FROM parent));

    -- One statement for both tables: a job that is being restored is in exactly one of them.
    WITH seen AS (
        SELECT edges.parent, edges.child, living.has_children AS marked,
            CASE WHEN living.has_children IS NULL THEN coalesce(
                (SELECT f.status FROM finished_jobs AS f WHERE f.id = edges.parent
                 ORDER BY f.finished_at DESC LIMIT 1),
                (SELECT ends.status FROM ends WHERE ends.job_id = edges.parent
                 ORDER BY ends.seq DESC LIMIT 1),
                CASE WHEN is_past(coalesce(edges.horizon, v_own))
                     THEN 'succeeded'::job_status END) END AS outcome
        FROM edges LEFT JOIN LATERAL (
            SELECT coalesce(jobs.has_children, false) AS has_children
            FROM jobs WHERE jobs.id = edges.parent LIMIT 1
        ) AS living ON true
        WHERE edges.child = ANY (p_children)
    ), late AS MATERIALIZED (
        SELECT DISTINCT child FROM seen WHERE NOT marked OR marked IS NULL AND outcome IS NULL
    )
    SELECT ARRAY(SELECT child FROM late) AS late, array_agg(seen.parent) AS parents,
        array_agg(seen.child) AS children, array_agg(seen.outcome) AS outcomes
    INTO v_seen
    FROM seen
    WHERE seen.outcome IS NOT NULL AND NOT coalesce(seen.child IN (SELECT child FROM late), false);

    IF v_seen.late <> '{}' THEN   -- a parent is locked, or may still be added
        p_children := mask_ids(p_children, v_seen.late);
        -- That transaction may stay open for hours, so back off.
        UPDATE jobs SET delayed_at = clock(), scheduled_at = clock()
            + least(greatest((clock() - created_at) / 10, interval '0.1 s'), interval '2 s')
        WHERE id = ANY (v_seen.late);
        UPDATE edges SET horizon = v_own
        WHERE edges.child = ANY (v_seen.late) AND horizon IS NULL;
    END IF;
    PERFORM cut_edges(v_seen.parents, v_seen.children, v_seen.outcomes);
    PERFORM free_children(p_children, 'scheduled');
END $$;
