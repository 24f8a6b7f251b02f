-- Returns why new sessions of this login cannot write to this database, or NULL if they can. While
-- they cannot, no worker works here.
CREATE OR REPLACE FUNCTION explain_read_only() RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN pg_is_in_recovery() THEN 'this server is a standby, which accepts no writes'
        WHEN current_setting('default_transaction_read_only')::boolean
        THEN 'default_transaction_read_only is on, so this database accepts no writes' END
$$;
