-- Returns whether more jobs have ended than a filtered list or count searches (see newest_ended).
-- Returns false if ended jobs are not wanted.
CREATE OR REPLACE FUNCTION more_have_ended(
    p_filter job_filter, p_search integer, p_before_id bigint DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ((p_filter).statuses IS NULL
            OR (p_filter).statuses && '{succeeded,failed,cancelled,aborted}')
        AND p_search < (SELECT count(*) FROM newest_ended(p_filter, p_search + 1, p_before_id));
END $$;
