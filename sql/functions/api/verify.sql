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
            IF v_row.verdict IN ('broken', 'unknown') THEN
                RETURN QUERY SELECT v_row.verdict, v_row.promise, v_row.reason, v_row.lock,
                    v_row.job_id, v_row.other_id, v_row.seen, v_row.jobs;
                CONTINUE;
            ELSIF v_row.verdict = 'read' THEN
                v_after := v_row.job_id;
                v_kept := v_row.kept;
                v_row.job_id := NULL;     -- how far the slice came
                v_row.other_id := NULL;
                v_row.kept := NULL;
            END IF;
            v_key := concat_ws(' ', v_row.verdict, v_row.promise, v_row.reason);
            v_sums := v_sums || jsonb_build_object(v_key, to_jsonb(v_row)
                || coalesce(v_sums -> v_key, '{}') || jsonb_build_object('jobs',
                    v_row.jobs + coalesce((v_sums #>> ARRAY[v_key, 'jobs'])::bigint, 0)));
        END LOOP;
    END LOOP;
    RETURN QUERY
    SELECT total.* FROM jsonb_each(v_sums) CROSS JOIN LATERAL jsonb_to_record(value) AS total(
        verdict text, promise text, reason text, lock text, job_id bigint, other_id bigint,
        seen text, jobs bigint)
    ORDER BY total.verdict, total.promise, total.jobs DESC;
END $$;
