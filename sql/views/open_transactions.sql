-- The open transactions of this database's clients, the oldest first. You see only those that your
-- role may see.
CREATE OR REPLACE VIEW open_transactions AS
SELECT pid, coalesce(application_name, '') AS application, coalesce(state, '') AS state,
       clock_timestamp() - xact_start AS age
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND backend_type = 'client backend' AND xact_start IS NOT NULL
ORDER BY xact_start;

COMMENT ON VIEW open_transactions IS 'Open transactions of this database, the oldest first.';
COMMENT ON COLUMN open_transactions.pid IS 'The process of the server.';
COMMENT ON COLUMN open_transactions.application IS 'The name that the client has given itself.';
COMMENT ON COLUMN open_transactions.state IS 'What it is doing, as pg_stat_activity says.';
COMMENT ON COLUMN open_transactions.age IS 'How long ago it began.';
