-- Judges the jobs that have ended since p_since, and those that live: did the queue keep its
-- promises? Returns a row for each violation, how often and why jobs started out of order, and how
-- many jobs were read (see verify_slice).
--
-- The call is one transaction. `queue verify` reads the same slices, each in its own.
CREATE OR REPLACE FUNCTION verify(
    p_since timestamptz DEFAULT NULL,
    p_lock  text DEFAULT NULL
) RETURNS TABLE (
    verdict text, promise text, reason text, lock text, job_id bigint, other_id bigint, seen text,
    jobs bigint
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_after bigint := 0;
    v_kept  job_run[] := '{}';
    v_row   record;
    v_sums  jsonb := '{}';
    v_key   text;
BEGIN
    WHILE v_after IS NOT NULL LOOP
        FOR v_row IN SELECT * FROM verify_slice(v_after, v_kept, clock(), p_since, p_lock) LOOP
            verdict := v_row.verdict;
            promise := v_row.promise;
            reason := v_row.reason;
            lock := v_row.lock;
            job_id := CASE WHEN verdict <> 'read' THEN v_row.job_id END;
            other_id := CASE WHEN verdict <> 'read' THEN v_row.other_id END;
            seen := v_row.seen;
            jobs := v_row.jobs;
            IF verdict IN ('broken', 'unknown') THEN
                RETURN NEXT;
                CONTINUE;
            ELSIF verdict = 'read' THEN
                v_after := v_row.job_id;
                v_kept := v_row.kept;
            END IF;
            v_key := concat_ws(' ', verdict, promise, reason);
            v_sums := v_sums || jsonb_build_object(v_key, jsonb_build_object('lock', lock,
                'job_id', job_id, 'other_id', other_id, 'seen', seen, 'verdict', verdict,
                'promise', promise, 'reason', reason) || coalesce(v_sums -> v_key, '{}')
                || jsonb_build_object('jobs',
                    jobs + coalesce((v_sums #>> ARRAY[v_key, 'jobs'])::bigint, 0)));
        END LOOP;
    END LOOP;
    RETURN QUERY
    SELECT total.* FROM jsonb_each(v_sums) CROSS JOIN LATERAL jsonb_to_record(value) AS total(
        verdict text, promise text, reason text, lock text, job_id bigint, other_id bigint,
        seen text, jobs bigint)
    ORDER BY total.verdict, total.promise, total.jobs DESC;
END $$;
