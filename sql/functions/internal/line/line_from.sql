-- Returns the best job of a lane's line, and the best of its part in `waits`, without a look at
-- what its floors leave behind. Does the work of line_of for a lane that has run many jobs while an
-- open snapshot keeps their index entries: they lie in front of all that wait.
--
-- A floor is [priority, id, final]. It was noted by a search after all ids up to `final` were
-- final: no job of this priority with a lower id waited. Only jobs that come back can change that,
-- and they have an index of their own: a job gets a fence when it starts, and a time when it is
-- scheduled or its priority changes. Most draw a number as they come back (back_id). A number up to
-- `final` is old: the search saw that job, or it has run since. Jobs without one are always read.
--
-- The parts are read in order, each only if those before it are empty. Two bounds for one priority,
-- and for a number, keep the planner from jobs_pkey, which has the order of ids, too, and all jobs
-- of other lanes. The subqueries keep it from statistics, which tell nothing about one lane. It
-- cannot inline the function, so who has no floor does not pay for it.
CREATE OR REPLACE FUNCTION line_from(
    p_lock   text,
    p_floors jsonb   -- of the priorities that the lane has run lately, the highest first
) RETURNS TABLE (priority integer, id bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_above bigint := 1::bigint << 31;   -- the priority of the last floor; NULL: we found a job
    v_floor record;
BEGIN
    FOR v_floor IN
        SELECT (floor.value ->> 0)::integer AS priority, (floor.value ->> 1)::bigint AS id,
            (floor.value ->> 2)::bigint AS final
        FROM jsonb_array_elements(p_floors) AS floor
    LOOP
        RETURN QUERY
        (SELECT jobs.priority, jobs.id FROM jobs
         WHERE jobs.lock::text = p_lock AND may_wait(jobs.status)
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
            AND jobs.priority > v_floor.priority AND jobs.priority < v_above
         ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
        UNION ALL
        (SELECT v_floor.priority, min(back.id) FROM (
            (SELECT jobs.id FROM jobs
             WHERE jobs.lock::text = p_lock AND may_wait(jobs.status)
                AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
                AND (jobs.fence IS NOT NULL OR jobs.scheduled_at IS NOT NULL
                     OR jobs.delayed_at IS NOT NULL)
                AND jobs.priority = v_floor.priority AND jobs.back_id IS NULL
                AND jobs.id < v_floor.id
             ORDER BY jobs.back_id, jobs.id LIMIT 1)
            UNION ALL
            (SELECT jobs.id FROM jobs
             WHERE jobs.lock::text = p_lock AND may_wait(jobs.status)
                AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
                AND (jobs.fence IS NOT NULL OR jobs.scheduled_at IS NOT NULL
                     OR jobs.delayed_at IS NOT NULL)
                AND jobs.priority = v_floor.priority
                AND jobs.back_id > (SELECT v_floor.final) AND jobs.back_id <= 9223372036854775807
                AND jobs.id < (SELECT v_floor.id)
             OFFSET 0)
         ) AS back HAVING count(*) > 0)
        UNION ALL
        (SELECT jobs.priority, jobs.id FROM jobs
         WHERE jobs.lock::text = p_lock AND may_wait(jobs.status)
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
            AND jobs.priority >= v_floor.priority AND jobs.priority <= v_floor.priority
            AND jobs.id >= v_floor.id
         ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
        LIMIT 1;
        v_above := CASE WHEN NOT FOUND THEN v_floor.priority END;
        EXIT WHEN v_above IS NULL;
    END LOOP;
    RETURN QUERY
    (SELECT jobs.priority, jobs.id FROM jobs
     WHERE jobs.lock::text = p_lock AND may_wait(jobs.status)
        AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
        AND jobs.priority < v_above
     ORDER BY jobs.priority DESC, jobs.id LIMIT 1)
    UNION ALL
    (SELECT waits.priority, waits.id FROM waits WHERE waits.lock = p_lock
     ORDER BY waits.priority DESC, waits.id LIMIT 1);
END $$;
