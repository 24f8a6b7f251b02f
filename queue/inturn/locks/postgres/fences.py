"""Fences in PostgreSQL: the highest that a resource has seen, kept where the resource's own data is.

`check_fence` belongs into the transaction that writes: it refuses a holder whose lock has meanwhile been another's,
and keeps later ones waiting until the commit. `highest_fence` as the `seed` of a Redis lock makes its fences go on
growing after Redis has lost its data.
"""

from typing import Any, LiteralString

import psycopg

from inturn.locks.errors import LockLost

# One statement each, so that they also run beside each other: the lock makes the second wait and find the table.
TABLE: tuple[LiteralString, ...] = (
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
CHECK: LiteralString = """
INSERT INTO inturn_locks AS seen (name, fence) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET fence = excluded.fence WHERE seen.fence <= excluded.fence
RETURNING true"""
HIGHEST: LiteralString = "SELECT fence FROM inturn_locks WHERE name = %s"


def install(dsn: str) -> None:
    """Create the table `inturn_locks` if it is not there. Anybody may do it again at any time."""
    with psycopg.connect(dsn) as connection:
        for statement in TABLE:
            connection.execute(statement)


def check_fence(connection: psycopg.Connection[Any], resource: str, fence: int) -> None:
    """Raise LockLost if a greater fence was seen; else remember this one, in the caller's transaction."""
    if connection.execute(CHECK, (resource, fence)).fetchone() is None:
        raise _refused(resource, fence)


async def check_fence_async(connection: psycopg.AsyncConnection[Any], resource: str, fence: int) -> None:
    """Raise LockLost if a greater fence was seen; else remember this one, in the caller's transaction."""
    if await (await connection.execute(CHECK, (resource, fence))).fetchone() is None:
        raise _refused(resource, fence)


def highest_fence(dsn: str, resource: str) -> int:
    """The greatest fence that the resource has seen; 0 if none."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(HIGHEST, (resource,)).fetchone()
        return int(row[0]) if row else 0


def _refused(resource: str, fence: int) -> LockLost:
    return LockLost(f"fence {fence} is refused: a later holder was here", name=resource)
