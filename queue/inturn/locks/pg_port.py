"""PostgreSQL below the locks: a connection of each lease's own, or the caller's.

A connection is made when it is first needed and closed with the lease. One that is lost is made anew: for a row that is
right, and for an advisory lock it tells that the lock is gone, because the new session does not have it.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.rows import tuple_row

from inturn.database.deadlines import Terms, with_deadlines
from inturn.database.session import AsyncSession, Session
from inturn.locks.errors import LockBackendError
from inturn.locks.steps import Listen, Pause

TIMEOUT = 5.0  # seconds to connect; half of it until a silent server is asked whether it is still at work
LONGEST_CALL = 40.0  # seconds: longer than a statement waits in the server's queue; where the server cannot be asked
SETTINGS = {"default_transaction_isolation": "read committed"}


@dataclass(frozen=True, slots=True)
class Query:
    text: LiteralString
    parameters: Any = None
    repeatable: bool = True


class PgPort:
    def __init__(self, where: str | psycopg.Connection[Any]) -> None:
        self._where = where
        self._own: psycopg.Connection[Any] | None = None
        self._pid = os.getpid()

    @property
    def lane(self) -> object:
        return self._where

    def do(self, request: Any) -> Any:
        match request:
            case Pause(seconds):
                time.sleep(seconds)
            case Listen():
                pass
            case Query():
                with translated(request):
                    return self._query(request)

    def rest(self) -> None: ...

    def close(self) -> None:
        own, self._own = self._own, None
        if own is not None and self._pid == os.getpid():
            own.close()

    def __del__(self) -> None:
        self.close()  # of a lease that nobody refers to any more

    def _query(self, query: Query) -> list[tuple[Any, ...]]:
        with self._connection().cursor(row_factory=tuple_row) as cursor:
            cursor.execute(query.text, query.parameters)
            return cursor.fetchall()

    def _connection(self) -> psycopg.Connection[Any]:
        if not isinstance(self._where, str):
            return self._where
        if self._own is None or self._own.closed:
            self._own = connect(self._where)
        return self._own


class AsyncPgPort:
    def __init__(self, where: str | psycopg.AsyncConnection[Any]) -> None:
        self._where = where
        self._own: psycopg.AsyncConnection[Any] | None = None
        self._pid = os.getpid()

    async def do(self, request: Any) -> Any:
        match request:
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Listen():
                pass
            case Query():
                with translated(request):
                    return await self._query(request)

    async def rest(self) -> None: ...

    async def close(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await own.close()

    def __del__(self) -> None:
        own, self._own = self._own, None
        if own is not None and self._pid == os.getpid():
            own.pgconn.finish()  # nothing can be awaited any more

    async def _query(self, query: Query) -> list[tuple[Any, ...]]:
        connection = await self._connection()
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(query.text, query.parameters)
            return await cursor.fetchall()

    async def _connection(self) -> psycopg.AsyncConnection[Any]:
        if not isinstance(self._where, str):
            return self._where
        if self._own is None or self._own.closed:
            terms = _terms(self._where)
            self._own = await AsyncSession.connect(
                terms.address, terms=terms, autocommit=True, application_name="inturn lock"
            )
        return self._own


def connect(where: str) -> Session:
    terms = _terms(where)
    return Session.connect(terms.address, terms=terms, autocommit=True, application_name="inturn lock")


def _terms(where: str) -> Terms:
    address = with_deadlines(where, TIMEOUT)
    return Terms(address, TIMEOUT / 2, LONGEST_CALL, settle_within=TIMEOUT, settings=SETTINGS)


@contextmanager
def translated(query: Query) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.UndefinedTable as error:
        raise LockBackendError("the table inturn_locks does not exist; create it: inturn.locks.install(dsn)") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        # Classes 55 and 40 are answers of a server that lives: lock not available, deadlock.
        lost = error.sqlstate is None or error.sqlstate.startswith(("57", "08"))
        raise LockBackendError(f"PostgreSQL: {_first_line(error)}", unclear=lost and query.repeatable) from error
    except psycopg.Error as error:
        raise LockBackendError(f"PostgreSQL refused: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
