-- final_ids: returns an id up to which all jobs are final: each one is committed, or never will be.
-- A job that becomes visible later has a higher id. If the first job of a lane is found after that,
-- no older one comes before it, except one that comes back (see line_from).
--
-- It takes two calls: the first notes the last id that was drawn, and then takes a transaction id.
-- Who defers has a transaction id before it draws the id of a job. So all that have drawn one of
-- the noted ids are over once all older transactions are. Snapshots have no transaction id and
-- delay nothing. If other transactions stay open, p_patient looks whether any has written jobs.
--
-- What it says is true only on this server: another one may give the same ids once more. Therefore
-- the session keeps the horizon, and an unknown one begins anew.
CREATE OR REPLACE FUNCTION final_ids(
    p_noted   bigint,
    p_horizon text,      -- both as the last call returned them; NULL: begin anew
    p_patient boolean,   -- the last call was long ago
    OUT final   bigint,  -- or NULL
    OUT noted   bigint,
    OUT horizon text
)
LANGUAGE plpgsql AS $$
DECLARE
    v_horizon xid8 := CASE WHEN p_horizon = current_setting('inturn.horizon', true)
                           THEN split_part(p_horizon, ' ', 1)::xid8 END;
BEGIN
    IF pg_snapshot_xmin(pg_current_snapshot()) >= v_horizon OR (p_patient AND NOT EXISTS (
        SELECT FROM pg_locks AS written
        JOIN pg_locks AS own ON own.virtualtransaction = written.virtualtransaction
        WHERE written.locktype = 'relation' AND written.relation = 'jobs'::regclass
            AND written.mode NOT IN ('AccessShareLock', 'RowShareLock')
            AND own.locktype = 'transactionid' AND own.mode = 'ExclusiveLock'
            AND age(own.transactionid) > age(v_horizon::xid)
    )) THEN
        final := p_noted;
    ELSIF v_horizon IS NOT NULL THEN
        noted := p_noted;
        horizon := p_horizon;
        RETURN;
    END IF;
    SELECT last_value - (NOT is_called)::integer INTO noted FROM jobs_id_seq;
    horizon := concat_ws(' ', pg_current_xact_id(), pg_postmaster_start_time());
    PERFORM set_config('inturn.horizon', horizon, false);
END $$;
