-- Does the work of claim_candidates while jobs with a group wait: in each priority, the groups take
-- turns. All queues count together, and the jobs without a group form one group (''). In a turn,
-- the oldest job of the group starts, or as many jobs as its weight allows.
--
-- The groups take turns in the order of their names, round and round. `turns` gives, for each
-- priority, the last group and how many of its jobs may still start before those of the next group.
-- Returns the same for the time after these jobs. A group therefore needs no row that others would
-- wait for, and deferring a job is only an INSERT.
CREATE OR REPLACE FUNCTION fair_candidates(INOUT r claim_round, p_shares integer[])
LANGUAGE plpgsql AS $$
DECLARE
    v_free   bigint[] := group_front(r.queues, true, r.wanted, r.turns);
    v_tokens bigint[] := group_front(r.queues, false, r.reach, r.turns);
BEGIN
    WITH token AS MATERIALIZED (
        SELECT * FROM lane_tokens(r.queues, r.windows, r.lost, v_tokens)
    ), startable AS MATERIALIZED (
        SELECT f.id, f.priority, NULL AS lock, f.limit_key IS NOT NULL AS limited, '' AS name,
            false AS several
        FROM unnest(r.queues, p_shares) AS q(queue, share)
        CROSS JOIN LATERAL (
            SELECT jobs.id, jobs.priority, jobs.limit_key FROM jobs
            WHERE jobs.status = 'todo' AND jobs.lock IS NULL
              AND jobs.group_key IS NULL AND jobs.queue = q.queue
            ORDER BY jobs.priority DESC, jobs.id
            LIMIT q.share
            FOR UPDATE SKIP LOCKED
        ) AS f
        UNION ALL
        SELECT jobs.id, jobs.priority, NULL, jobs.limit_key IS NOT NULL, jobs.group_key, false
        FROM jobs WHERE jobs.id = ANY (v_free)
        UNION ALL
        SELECT token.id, token.priority, token.lock, false, token.group_key, token.several
        FROM token WHERE open
    ), known AS (
        SELECT array_agg(DISTINCT startable.name) AS names FROM startable HAVING count(*) > 0
    ), weighed AS (
        SELECT each.name, each.weight
        FROM known CROSS JOIN LATERAL unnest(names, group_weights(names)) AS each(name, weight)
    ), placed AS (
        SELECT startable.*, weighed.weight, last.name AS last,
            CASE WHEN startable.name = last.name THEN last.rest ELSE 0 END AS first,
            row_number() OVER (
                PARTITION BY startable.priority, startable.name ORDER BY startable.id) AS place
        FROM startable JOIN weighed ON weighed.name = startable.name
        CROSS JOIN LATERAL (
            SELECT r.turns -> startable.priority::text ->> 0 AS name,
                coalesce((r.turns -> startable.priority::text ->> 1)::integer, 0) AS rest
        ) AS last
    ), ordered AS (
        SELECT placed.*, row_number() OVER (
            ORDER BY priority DESC,
                CASE WHEN place <= first THEN -1 ELSE (place - first - 1) / weight END,
                coalesce(name <= last COLLATE "C", false), name COLLATE "C", id) AS position
        FROM placed
    ), best AS (   -- none behind the first whose lanes are too many: it would pass that turn
        SELECT * FROM (
            SELECT ordered.*, sum(CASE WHEN several THEN 8 WHEN lock IS NOT NULL THEN 1 ELSE 0 END)
                OVER (ORDER BY position) <= r.lanes_left AS fits
            FROM ordered ORDER BY position LIMIT r.wanted
        ) AS next
        WHERE fits
    ), last AS (
        SELECT DISTINCT ON (priority) priority, name,
            CASE WHEN place <= first THEN first - place
                 ELSE weight - 1 - (place - first - 1) % weight END AS rest
        FROM best ORDER BY priority, position DESC
    ), chosen AS (
        SELECT array_agg(id ORDER BY position) FILTER (WHERE lock IS NULL) AS free,
               array_agg(lock ORDER BY position)
                   FILTER (WHERE lock IS NOT NULL AND NOT best.several) AS lanes,
               array_agg(id ORDER BY position)
                   FILTER (WHERE lock IS NOT NULL AND NOT best.several) AS seen,
               array_agg(id ORDER BY position) FILTER (WHERE best.several) AS several,
               bool_or(best.limited) AS limited
        FROM best
    ), rest AS (
        SELECT array_agg(id) FILTER (WHERE NOT open AND NOT token.several) AS behind,
               array_agg(lock) FILTER (WHERE NOT open AND NOT token.several) AS behind_locks,
               array_agg(id) FILTER (WHERE NOT open AND token.several) AS shut,
               count(*) >= r.reach OR count(*) FILTER (WHERE open) > r.lanes_left AS more,
               2000 + 8 * count(*) FILTER (WHERE touched AND NOT open) AS widest
        FROM token
    )
    SELECT coalesce(chosen.free, '{}'), coalesce(chosen.lanes, '{}'), coalesce(chosen.seen, '{}'),
           rest.behind, rest.behind_locks, rest.more, rest.widest,
           coalesce(chosen.limited, false), coalesce(chosen.several, '{}'), rest.shut,
           -- A worker remembers about a hundred priorities.
           CASE WHEN (SELECT count(*) FROM jsonb_object_keys(r.turns)) < 100 THEN r.turns
                ELSE '{}' END
               || coalesce((SELECT jsonb_object_agg(last.priority,
                   jsonb_build_array(last.name, last.rest)) FROM last), '{}')
    INTO r.ids, r.lanes, r.seen, r.behind, r.behind_locks, r.more, r.widest, r.limited, r.several,
        r.shut, r.turns
    FROM chosen, rest;
END $$;
