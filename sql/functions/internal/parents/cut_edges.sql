-- Does to each child what it has asked for if its parent ends this way. The caller has locked the
-- children. If the parent has succeeded, or the child runs anyway, the edge is deleted. Otherwise
-- the child is cancelled, or held with its edge. A cancelled job tells its own children in turn.
CREATE OR REPLACE FUNCTION cut_edges(
    p_parents bigint[], p_children bigint[], p_outcomes job_status[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_gone record;
BEGIN
    DELETE FROM edges USING unnest(p_parents, p_children, p_outcomes) AS e(parent, child, outcome)
    WHERE edges.parent = e.parent AND edges.child = e.child
        AND (e.outcome = 'succeeded' OR edges.on_parent = 'go');
    UPDATE edges SET failed = true
    FROM unnest(p_parents, p_children, p_outcomes) AS e(parent, child, outcome)
    WHERE edges.parent = e.parent AND edges.child = e.child
        AND e.outcome <> 'succeeded' AND edges.on_parent = 'hold';

    SELECT array_agg(bad.child) AS ids,
        array_agg(jsonb_build_object('error', bad.error)) AS errors
    INTO v_gone
    FROM (
        SELECT e.child, format('not started: job %s, which it comes after, is %s',
            min(e.parent), (array_agg(e.outcome ORDER BY e.parent))[1]) AS error
        FROM unnest(p_parents, p_children, p_outcomes) AS e(parent, child, outcome)
        JOIN edges ON edges.parent = e.parent AND edges.child = e.child
        WHERE e.outcome <> 'succeeded' AND edges.on_parent = 'cancel'
        GROUP BY e.child
    ) AS bad;
    PERFORM archive_jobs(v_gone.ids, p_errors => v_gone.errors) WHERE v_gone.ids IS NOT NULL;
END $$;
