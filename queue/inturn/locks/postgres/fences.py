"""Fences in PostgreSQL: the highest one that a resource has seen, stored beside its own data.

Call `check_lock_fence` in the transaction that writes. It refuses a holder whose lock another has
held since, and makes later holders wait until the commit.

Pass `highest_fence` as the `seed` of a Redis lock, so that its fences keep growing after Redis has
lost its data.
"""

from contextlib import closing
from typing import Any

import psycopg

from inturn.locks.errors import LockLost
from inturn.locks.postgres import statements
from inturn.locks.postgres.ports import PgPort, Query


def install(dsn: str) -> None:
    """Create the table `inturn_locks` if it does not exist. Safe to repeat."""
    with psycopg.connect(dsn) as connection:
        for statement in statements.CREATE_TABLE:
            connection.execute(statement)


def check_lock_fence(connection: psycopg.Connection[Any], resource: str, fence: int) -> None:
    """Raise LockLost if the resource has seen a greater fence, else store this one.

    Both happen in the connection's transaction.
    """
    if connection.execute(statements.CHECK_FENCE, (resource, fence)).fetchone() is None:
        raise _make_refusal(resource, fence)


async def check_lock_fence_async(
    connection: psycopg.AsyncConnection[Any], resource: str, fence: int
) -> None:
    """The async twin of `check_lock_fence`."""
    cursor = await connection.execute(statements.CHECK_FENCE, (resource, fence))
    if await cursor.fetchone() is None:
        raise _make_refusal(resource, fence)


def highest_fence(dsn: str, resource: str) -> int:
    """Return the greatest fence that the resource has seen, or 0."""
    with closing(PgPort(dsn)) as port:
        rows = port.do(Query(statements.HIGHEST_FENCE, (resource,)))
    return int(rows[0][0]) if rows else 0


def _make_refusal(resource: str, fence: int) -> LockLost:
    return LockLost(
        f"fence {fence} is refused: a later holder has already been here", name=resource
    )
