"""Ports on PostgreSQL connections: a lease's own, or the caller's.

A lease opens its connection on first use, and closes it at its end. A lost connection is reopened.
That is right for a row. For an advisory lock it reveals that the lock is gone, because the new
session does not hold it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.rows import tuple_row

from inturn.database.deadlines import Terms, with_deadlines
from inturn.database.session import AsyncSession, Session
from inturn.locks.core.protocol import AsyncPort, Port
from inturn.locks.errors import LockBackendError

# Seconds to connect. After half of them, a silent server is asked if it still works on the call.
TIMEOUT = 5.0
# Seconds for a call if the server cannot be asked: more than a statement waits in its queue.
LONGEST_CALL = 40.0
SETTINGS = {"default_transaction_isolation": "read committed"}


@dataclass(frozen=True, slots=True)
class Query:
    """A request to run a statement."""

    text: LiteralString
    parameters: Any = None
    repeatable: bool = True


class PgPort(Port):
    """Carries out requests on a sync connection."""

    def __init__(self, where: str | psycopg.Connection[Any]) -> None:
        self._where = self.server = where
        self._own: psycopg.Connection[Any] | None = None
        self._pid = os.getpid()

    def do(self, request: Any) -> Any:
        if not isinstance(request, Query):
            return super().do(request)
        with (
            translate_errors(request),
            self._connection().cursor(row_factory=tuple_row) as cursor,
        ):
            cursor.execute(request.text, request.parameters)
            return cursor.fetchall()

    def close(self) -> None:
        own, self._own = self._own, None
        if own is not None and self._pid == os.getpid():
            own.close()

    def __del__(self) -> None:
        self.close()  # the lease is no longer referenced

    def _connection(self) -> psycopg.Connection[Any]:
        if not isinstance(self._where, str):
            return self._where
        if self._own is None or self._own.closed:
            self._own = Session.connect(**_make_options(self._where))
        return self._own


class AsyncPgPort(AsyncPort):
    """Carries out requests on an async connection."""

    def __init__(self, where: str | psycopg.AsyncConnection[Any]) -> None:
        self._where = where
        self._own: psycopg.AsyncConnection[Any] | None = None
        self._pid = os.getpid()

    async def do(self, request: Any) -> Any:
        if not isinstance(request, Query):
            return await super().do(request)
        with translate_errors(request):
            connection = await self._connection()
            async with connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(request.text, request.parameters)
                return await cursor.fetchall()

    async def close(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await own.close()

    def __del__(self) -> None:
        own, self._own = self._own, None
        if own is not None and self._pid == os.getpid():
            own.pgconn.finish()  # nothing can be awaited here

    async def _connection(self) -> psycopg.AsyncConnection[Any]:
        if not isinstance(self._where, str):
            return self._where
        if self._own is None or self._own.closed:
            self._own = await AsyncSession.connect(**_make_options(self._where))
        return self._own


def refuse_malformed_dsn(dsn: str) -> None:
    """Raise ValueError if the DSN cannot be used, without repeating a possible password."""
    from inturn.database.dsn import find_problem  # here, so that importing the locks imports little

    wrong = find_problem(dsn)
    if wrong is not None:
        raise ValueError(f"this {wrong}")


def _make_options(where: str) -> dict[str, Any]:
    """Return how to connect without waiting forever for a silent server."""
    address = with_deadlines(where, TIMEOUT)
    terms = Terms(address, TIMEOUT / 2, LONGEST_CALL, settle_within=TIMEOUT, settings=SETTINGS)
    return {
        "conninfo": address,
        "terms": terms,
        "autocommit": True,
        "application_name": "inturn lock",
    }


@contextmanager
def translate_errors(query: Query) -> Iterator[None]:
    """Raise the lock's errors instead of psycopg's."""
    try:
        yield
    except psycopg.errors.UndefinedTable as error:
        raise LockBackendError(
            "the table inturn_locks does not exist; create it with inturn.locks.install(dsn)"
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        # Other classes, such as 55 (lock not available) and 40 (deadlock), come from a live server.
        lost = error.sqlstate is None or error.sqlstate.startswith(("57", "08"))
        raise LockBackendError(
            f"PostgreSQL: {_first_line(error)}", unclear=lost and query.repeatable
        ) from error
    except psycopg.Error as error:
        raise LockBackendError(f"PostgreSQL refused: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
