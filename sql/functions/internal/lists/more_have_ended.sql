-- Returns whether more jobs have ended than a filtered list or count searches (see newest_ended).
-- Returns false if ended jobs are not wanted.
CREATE OR REPLACE FUNCTION more_have_ended(
    p_search integer, p_statuses job_status[], p_batch bigint, p_before timestamptz,
    p_before_id bigint
) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (p_statuses IS NULL OR p_statuses && '{succeeded,failed,cancelled,aborted}')
        AND p_search < (SELECT count(*)
            FROM newest_ended(p_search + 1, p_statuses, p_batch, p_before, p_before_id));
END $$;
