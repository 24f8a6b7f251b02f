-- final_ids: returns an id up to which all jobs are final: each one is committed, or never will be.
-- A job that becomes visible later has a higher id. If the first job of a lane is found after that,
-- no older one comes before it, except one that comes back (see line_from).
--
-- It takes two calls: the first notes the last id that was drawn, and then takes a transaction id.
-- A transaction has an id of its own before it draws the id of a job, so every transaction that
-- drew one of the noted ids is over once all older ones are. Snapshots have no transaction id and
-- delay nothing. If other transactions stay open, p_patient checks whether any has drawn an id:
-- one that has keeps a lock on the sequence until it ends.
--
-- The answer holds only on this server, since another one may give out the same ids again. The
-- session therefore keeps the horizon, and a call with any other one starts over. If sessions cache
-- ids, nothing is ever final.
CREATE OR REPLACE FUNCTION final_ids(
    p_noted   bigint,
    p_horizon text,      -- both as the last call returned them; NULL: start over
    p_patient boolean,   -- the last call was long ago
    OUT final   bigint,  -- or NULL
    OUT noted   bigint,
    OUT horizon text,
    OUT reads_much boolean   -- looks at the fronts of lanes read much lately (leave_front)
)
LANGUAGE plpgsql AS $$
DECLARE
    v_horizon xid8 := CASE WHEN p_horizon = current_setting('inturn.horizon', true)
                           THEN split_part(p_horizon, ' ', 1)::xid8 END;
BEGIN
    reads_much := coalesce(nullif(current_setting('inturn.front_at', true), '')::timestamptz
        > clock() - interval '5 s', false);
    IF v_horizon IS NOT NULL THEN
        IF pg_snapshot_xmin(pg_current_snapshot()) < v_horizon AND NOT (p_patient AND (
            -- One look at the locks, since they change. A transaction that is being prepared may
            -- show them under two names: one that has drawn is harmless only if it is seen to be
            -- new.
            WITH locks AS MATERIALIZED (
                SELECT virtualtransaction AS owner, relation, mode, transactionid FROM pg_locks
            )
            SELECT bool_and((
                SELECT bool_and(age(own.transactionid) <= age(v_horizon::xid)) FROM locks AS own
                WHERE own.owner = drawn.owner AND own.mode = 'ExclusiveLock'
            ) IS TRUE) IS NOT FALSE
            FROM locks AS drawn
            WHERE drawn.relation = 'jobs_id_seq'::regclass AND drawn.mode = 'RowExclusiveLock'
        )) THEN
            noted := p_noted;
            horizon := p_horizon;
            RETURN;
        END IF;
        final := p_noted;
    END IF;
    SELECT last_value - (NOT is_called)::integer INTO noted FROM jobs_id_seq, pg_sequence
    WHERE seqrelid = 'jobs_id_seq'::regclass AND seqcache = 1;
    horizon := concat_ws(' ', pg_current_xact_id(), pg_postmaster_start_time());
    PERFORM set_config('inturn.horizon', horizon, false);
END $$;
