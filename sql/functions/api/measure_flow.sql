-- Returns how many jobs were stored and have left since the server started counting, and how many
-- failed in the last minute, at most 1,000. The first two are the server's own counters: each of
-- its sessions adds to them once a second, and they include work that was rolled back.
CREATE OR REPLACE FUNCTION measure_flow()
RETURNS TABLE (deferred bigint, ended bigint, failed bigint)
LANGUAGE sql STABLE AS $$
    SELECT pg_stat_get_tuples_inserted('jobs'::regclass),
        pg_stat_get_tuples_deleted('jobs'::regclass),
        (SELECT count(*) FROM (
            SELECT FROM finished_jobs
            WHERE status = 'failed' AND finished_at > clock() - interval '1 minute'
            LIMIT 1000) AS failed)
$$;
