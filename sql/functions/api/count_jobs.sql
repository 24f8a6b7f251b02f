-- Counts jobs, live and finished, up to p_limit. NULL in a filter means any. It searches the newest
-- p_search live jobs, continues where an index fits (see candidates), and checks about p_limit of
-- those that may have the status. It also searches the newest p_search jobs that have ended (see
-- newest_ended). `more` is true if there may be more.
CREATE OR REPLACE FUNCTION count_jobs(
    p_limit  integer,
    p_filter job_filter DEFAULT NULL,   -- see jobs_where
    p_search integer    DEFAULT 10000
) RETURNS TABLE (jobs_count bigint, more boolean)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_custom_plan   -- the plan leaves out conditions that are NULL
AS $$
DECLARE
    v_statuses job_status[] := (p_filter).statuses;
    v_search   integer := greatest(p_search, p_limit);
    v_ids      bigint[];
    v_cut      boolean;
    v_live     bigint;
    v_finished bigint := 0;
BEGIN
    SELECT found.ids, found.is_cut OR cardinality(found.ids) >= p_limit INTO v_ids, v_cut
    FROM candidates(p_filter, v_search, p_limit, p_limit) AS found;
    v_live := CASE WHEN v_statuses IS NULL THEN cardinality(v_ids) ELSE (
        SELECT least(count(*), p_limit) FROM look_at_live(v_ids) WHERE status = ANY (v_statuses))
    END;
    IF v_statuses IS NULL OR v_statuses && '{succeeded,failed,cancelled,aborted}' THEN
        SELECT count(*) INTO v_finished FROM (
            SELECT FROM ended_that_match(p_filter, v_search) LIMIT p_limit - v_live) AS counted;
    END IF;
    RETURN QUERY
    SELECT v_live + v_finished,
        v_cut OR v_live + v_finished >= p_limit OR more_have_ended(p_filter, v_search);
END $$;
