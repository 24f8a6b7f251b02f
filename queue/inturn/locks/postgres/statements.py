"""The SQL of the locks in PostgreSQL: for advisory locks, rows of `inturn_locks`, and fences."""

from typing import LiteralString

# A lock and its fence come from one statement, so that no session has taken one without the other.
FENCE: LiteralString = (
    "SELECT pg_current_xact_id()::text::bigint, extract(epoch FROM clock_timestamp())::float8"
)
TRY: LiteralString = f"{FENCE} WHERE pg_try_advisory_lock(%s)"
# The id of a transaction that had one before may be lower than the fence of the last holder.
TRY_IN_TRANSACTION: LiteralString = """
SELECT CASE WHEN pg_current_xact_id_if_assigned() IS NULL
    THEN pg_current_xact_id()::text::bigint END, extract(epoch FROM clock_timestamp())::float8
WHERE pg_try_advisory_xact_lock(%s)
"""
# lock_timeout is set for this statement only. CASE, because conditions have no order.
WAIT: LiteralString = f"""
{FENCE} WHERE CASE WHEN set_config('lock_timeout', %s, false) IS NOT NULL
  THEN pg_advisory_lock(%s) IS NOT NULL END
"""
UNLOCK: LiteralString = "SELECT pg_advisory_unlock(%s)"
HOLDERS: LiteralString = """
SELECT pid, extract(epoch FROM state_change)::float8,
  extract(epoch FROM clock_timestamp())::float8, application_name
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1
  AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = %s
"""
IS_OURS: LiteralString = f"SELECT EXISTS ({HOLDERS} AND pid = pg_backend_pid())"
END_HOLDER: LiteralString = f"SELECT bool_or(pg_terminate_backend(pid)) FROM ({HOLDERS}) AS holders"  # noqa: S608 (of constants)

TAKE_ROW: LiteralString = """
INSERT INTO inturn_locks AS held (name, lock_id, owner, fence, acquired_at, expires_at)
VALUES (%(name)s, %(lock_id)s, %(owner)s, 1, clock_timestamp(),
  clock_timestamp() + %(ttl)s * interval '1 second')
ON CONFLICT (name) DO UPDATE SET
  lock_id = excluded.lock_id, owner = excluded.owner,
  fence = held.fence + (held.lock_id IS DISTINCT FROM excluded.lock_id)::int,
  acquired_at = CASE WHEN held.lock_id = excluded.lock_id
    THEN held.acquired_at ELSE excluded.acquired_at END,
  expires_at = CASE WHEN held.lock_id = excluded.lock_id
    THEN held.expires_at ELSE excluded.expires_at END
WHERE held.lock_id IS NULL OR held.lock_id = excluded.lock_id
  OR held.expires_at <= clock_timestamp()
RETURNING fence, extract(epoch FROM acquired_at)::float8
"""
DROP_ROW: LiteralString = """
UPDATE inturn_locks
SET lock_id = NULL, owner = NULL, expires_at = NULL, released = %(lock_id)s
WHERE name = %(name)s AND (lock_id = %(lock_id)s AND expires_at > clock_timestamp()
  OR lock_id IS NULL AND released = %(lock_id)s)
RETURNING true
"""
RENEW_ROW: LiteralString = """
UPDATE inturn_locks SET expires_at = clock_timestamp() + %(ttl)s * interval '1 second'
WHERE name = %(name)s AND lock_id = %(lock_id)s AND expires_at > clock_timestamp()
RETURNING true
"""
HOLDER: LiteralString = """owner, lock_id, extract(epoch FROM acquired_at)::float8,
  extract(epoch FROM clock_timestamp() - acquired_at)::float8,
  extract(epoch FROM expires_at - clock_timestamp())::float8, fence"""
LOOK_AT_ROW: LiteralString = f"SELECT {HOLDER}, released FROM inturn_locks WHERE name = %(name)s"  # noqa: S608 (of constants)
BREAK_ROW: LiteralString = """
UPDATE inturn_locks SET lock_id = NULL, owner = NULL, expires_at = NULL, fence = fence + 1
WHERE name = %(name)s AND lock_id IS NOT NULL AND expires_at > clock_timestamp()
RETURNING true
"""
ROWS: LiteralString = (
    f"SELECT name, {HOLDER} FROM inturn_locks "  # noqa: S608 (of constants)
    "WHERE expires_at > clock_timestamp() ORDER BY name"
)

# Separate statements, so that two installations can run at once: the advisory lock makes the second
# one wait until it finds the table.
CREATE_TABLE: tuple[LiteralString, ...] = (
    "SELECT pg_advisory_xact_lock(7524121893114)",
    """
CREATE TABLE IF NOT EXISTS inturn_locks (
  name text PRIMARY KEY,
  lock_id text,
  owner text,
  fence bigint NOT NULL CHECK (fence >= 0),
  acquired_at timestamptz,
  expires_at timestamptz,
  released text,
  CHECK ((lock_id IS NULL) = (expires_at IS NULL))
) WITH (fillfactor = 50)""",
)
CHECK_FENCE: LiteralString = """
INSERT INTO inturn_locks AS seen (name, fence) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence WHERE seen.fence <= excluded.fence
RETURNING true"""
HIGHEST_FENCE: LiteralString = "SELECT fence FROM inturn_locks WHERE name = %s"
