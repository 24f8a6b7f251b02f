-- Returns the live jobs to check for a list or a count, and whether it may have missed some that
-- match. They match the filter apart from the status, which the caller has to check. However many
-- live jobs there are, it reads a bounded number of them:
-- * doing, claimed: the newest p_limit. What the workers have in hand is read once, not once per
--   job.
-- * Otherwise those among the newest p_search that may match, until there are enough: p_limit, or
--   p_looked if their statuses are not stored as people see them. If there are not enough, it
--   continues in each index that fits (see search_indexes), so rare jobs are found too.
-- * todo, if no job that waits for something is wanted: free jobs as above, and what could start in
--   the first p_looked lanes. In deep lanes the newest jobs are all blocked.
-- * Of a batch: its newest p_search.
--
-- The ids are chosen before live_jobs is read. Otherwise a plan based on wrong statistics may
-- compute the statuses of all live jobs.
CREATE OR REPLACE FUNCTION candidates(
    p_filter    job_filter,
    p_search    integer,
    p_limit     integer,
    p_looked    integer,
    p_in_lanes  boolean DEFAULT false,   -- leave out jobs without a lock
    p_before_id bigint  DEFAULT NULL,    -- only jobs with smaller ids
    OUT ids bigint[], OUT is_cut boolean
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_waiting job_status[] := ARRAY(
        SELECT status FROM unnest(coalesce((p_filter).statuses,
            '{todo,blocked,limited,scheduled,pending}')) AS status
        WHERE status IN ('todo', 'blocked', 'limited', 'scheduled', 'pending')
            AND ((p_filter).worker_id IS NULL));
    v_stored  job_status[] := v_waiting
        || CASE WHEN 'blocked' = ANY (v_waiting) THEN '{todo,paused}' ELSE '{}' END::job_status[]
        || CASE WHEN 'pending' = ANY (v_waiting) THEN '{scheduled}' ELSE '{}' END::job_status[]
        || CASE WHEN (p_filter).statuses IS NULL THEN '{doing}' ELSE '{}' END::job_status[];
    v_lanes   boolean := v_stored <> '{todo}' OR (p_filter).batch_id IS NOT NULL;
    -- A free job is only blocked if its task is paused.
    v_free    boolean := 'todo' = ANY (v_waiting)
        OR 'blocked' = ANY (v_waiting) AND EXISTS (SELECT FROM paused_tasks);
    v_pending boolean := 'pending' = ANY (v_waiting);
    -- Only one of these two is wanted.
    v_apart   boolean := v_pending <> ('scheduled' = ANY (v_waiting));
    v_exact   boolean := v_waiting @> '{todo,blocked}' OR NOT v_waiting && '{todo,blocked}';
    v_enough  integer := CASE WHEN v_exact THEN p_limit ELSE p_looked END;
    v_found   bigint[] := '{}';
    v_last    bigint;    -- the oldest of the newest p_search
    v_more    bigint[];
BEGIN
    ids := '{}';
    is_cut := false;
    p_search := greatest(p_search, v_enough);
    IF (p_filter).statuses && '{claimed,doing}' THEN
        ids := ARRAY(
            SELECT job.id FROM claimed_jobs AS hand
            CROSS JOIN LATERAL (SELECT * FROM jobs WHERE jobs.id = hand.id LIMIT 1) AS job
            WHERE hand.status = ANY ((p_filter).statuses)
                AND ((p_filter).worker_id IS NULL OR hand.worker_id = (p_filter).worker_id)
                AND (p_before_id IS NULL OR job.id < p_before_id)
                AND (NOT p_in_lanes OR job.lock IS NOT NULL) AND matches_live(p_filter, job)
            ORDER BY job.id DESC LIMIT p_limit);
    END IF;
    IF v_stored = '{}' THEN
        RETURN;
    END IF;
    v_found := ARRAY(
        SELECT job.id FROM newest_live(p_search, (p_filter).batch_id, p_before_id) AS job
        WHERE job.status = ANY (v_stored) AND (NOT p_in_lanes OR job.lock IS NOT NULL)
            AND (NOT v_apart OR job.status <> 'scheduled' OR is_pending(job) = v_pending)
            AND CASE WHEN job.lock IS NOT NULL THEN v_lanes ELSE v_free OR job.status <> 'todo' END
            AND matches_live(p_filter, job)
        ORDER BY job.id DESC LIMIT v_enough);
    IF cardinality(v_found) < v_enough THEN
        SELECT job.id INTO v_last
        FROM newest_live(p_search, (p_filter).batch_id, p_before_id) AS job
        ORDER BY job.id DESC OFFSET p_search - 1;
        is_cut := v_last IS NOT NULL;
    END IF;
    IF is_cut AND (p_filter).batch_id IS NULL THEN
        SELECT array_agg(each.id), bool_or(cardinality(found.ids) > p_search) INTO v_more, is_cut
        FROM search_indexes(p_filter, v_stored, p_search, v_free AND NOT p_in_lanes, v_lanes)
            AS found
        LEFT JOIN LATERAL unnest(found.ids) AS each(id) ON true;
        v_found := v_found || ARRAY(
            SELECT job.id FROM jobs AS job
            WHERE job.id = ANY (v_more) AND job.id < v_last AND job.status = ANY (v_stored)
                AND (NOT p_in_lanes OR job.lock IS NOT NULL) AND (v_lanes OR job.lock IS NULL)
                AND (NOT v_apart OR job.status <> 'scheduled' OR is_pending(job) = v_pending)
                AND matches_live(p_filter, job)
            ORDER BY job.id DESC LIMIT v_enough - cardinality(v_found));
    END IF;
    is_cut := is_cut OR NOT v_exact AND cardinality(v_found) >= v_enough;
    ids := ids || v_found;
    IF NOT v_lanes THEN
        SELECT starters.ids, candidates.is_cut OR starters.is_cut INTO v_found, is_cut
        FROM lane_starters(p_filter, p_looked) AS starters;
        ids := ids || ARRAY(
            SELECT job.id FROM jobs AS job
            WHERE job.id = ANY (v_found) AND (p_before_id IS NULL OR job.id < p_before_id)
                AND matches_live(p_filter, job));
    END IF;
END $$;
