-- Returns what the tables do not tell, so that verify cannot judge it.
CREATE OR REPLACE FUNCTION list_unknown() RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT 'when a transaction that deferred jobs was committed, if the jobs have started since'
    UNION ALL
    SELECT 'when the end of a job was committed: track_commit_timestamp is off'
    WHERE NOT current_setting('track_commit_timestamp')::boolean
    UNION ALL
    SELECT 'which jobs a job came after, once it has started'
    UNION ALL
    SELECT 'which limits held before their last change'
$$;
