-- The part of claim_candidates for queues with lane tokens, with the same results. Takes the best
-- free jobs, locked, in `ids`, their priorities, and which of them have a limit, and keeps in `ids`
-- those that are among the best of both.
CREATE OR REPLACE FUNCTION lane_candidates(
    INOUT r claim_round, p_priorities integer[], p_limited boolean[],
    p_tokens bigint[] DEFAULT NULL   -- more tokens, besides those in the windows
)
LANGUAGE plpgsql AS $$
BEGIN
    WITH token AS MATERIALIZED (
        SELECT * FROM lane_tokens(r.queues, r.windows, r.lost, p_tokens)
    ), best AS (
        SELECT free.id, free.priority, NULL AS lock, free.limited, false AS several
        FROM unnest(r.ids, p_priorities, p_limited) AS free(id, priority, limited)
        UNION ALL
        (SELECT token.id, token.priority, token.lock, token.limited, token.several FROM token
            WHERE open ORDER BY token.priority DESC, token.id LIMIT r.lanes_left)
        ORDER BY priority DESC, id
        LIMIT r.wanted
    ), chosen AS (
        SELECT coalesce(array_agg(id) FILTER (WHERE lock IS NULL), '{}'),
            coalesce(array_agg(lock) FILTER (WHERE lock IS NOT NULL AND NOT best.several), '{}'),
            coalesce(array_agg(id) FILTER (WHERE lock IS NOT NULL AND NOT best.several), '{}'),
            coalesce((array_agg(id) FILTER (WHERE best.several))[:r.lanes_left / 8], '{}'),
            coalesce(bool_or(best.limited), false)
        FROM best
    ), rest AS (
        SELECT array_agg(id) FILTER (WHERE NOT open AND NOT token.several),
            array_agg(lock) FILTER (WHERE NOT open AND NOT token.several),
            array_agg(id) FILTER (WHERE NOT open AND token.several),
            count(*) >= r.reach OR count(*) FILTER (WHERE open) > r.lanes_left,
            2000 + 8 * count(*) FILTER (WHERE touched AND NOT open)
        FROM token
    )
    SELECT chosen.*, rest.*
    INTO r.ids, r.lanes, r.seen, r.several, r.limited,
        r.behind, r.behind_locks, r.shut, r.more, r.widest
    FROM chosen, rest;
END $$;
