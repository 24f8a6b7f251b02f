-- Returns these floors if the search for the heads of lanes should begin there, else NULL: it
-- begins at the front, unless that read much a short while ago (leave_front), or the floors are of
-- another session. That may be one of another server, after a failover.
CREATE OR REPLACE FUNCTION usable_floors(p_floors jsonb, p_horizon text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    -- If the clock was set back, it begins at the front.
    SELECT CASE WHEN p_horizon = current_setting('inturn.horizon', true)
        AND nullif(current_setting('inturn.front_at', true), '')::timestamptz - clock()
            BETWEEN '0' AND '5 s'
        THEN p_floors END
$$;
