"""Run operations on connections of asyncpg and psycopg 2, so a job can join their transactions.

Each class looks like a psycopg connection, as far as `drive` needs it. The driver sends the values
its own way, and its errors become psycopg's, which `conditions` translates.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import psycopg
from psycopg.pq import DiagnosticField

from inturn.operations import Rows

PLACEHOLDER = re.compile(r"%[sb]")
Fetch = Callable[[str, Sequence[Any]], Awaitable[Sequence[Sequence[Any]]]]


@dataclass(eq=False)
class Psycopg2Connection:
    """A psycopg 2 connection that is also its own cursor."""

    _driver: Any
    _cursor: Any = None

    def cursor(self, *, row_factory: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    @property
    def login(self) -> str:
        return str(self._driver.info.user)

    def execute(self, query: bytes, parameters: Sequence[Any], /) -> None:
        import psycopg2.extensions

        try:
            if self._cursor is None:  # one whose rows are plain tuples
                self._cursor = self._driver.cursor(cursor_factory=psycopg2.extensions.cursor)
            self._cursor.execute(query.replace(b"%b", b"%s"), list(parameters))
        except psycopg2.Error as error:
            is_lost, told = bool(self._driver.closed), error.diag
            fields = (error.pgcode, told.source_function, told.context)
            raise _to_psycopg(error, *fields, is_lost=is_lost) from error

    def fetchall(self) -> Rows:
        rows: Rows = self._cursor.fetchall()
        return rows

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()


@dataclass(eq=False)
class AsyncpgConnection:
    """An asyncpg connection that is also its own cursor.

    `fetch` sends a statement and returns its rows.
    """

    _driver: Any
    _fetch: Fetch
    _rows: Rows = ()

    def cursor(self, *, row_factory: object) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    @property
    def rowcount(self) -> int:
        return len(self._rows)

    @property
    def login(self) -> str:
        return str(self._driver.get_settings().session_authorization)

    async def execute(self, query: bytes, parameters: Sequence[Any], /) -> None:
        import asyncpg

        try:
            rows = await self._fetch(_number_placeholders(query), parameters)
        except Exception as error:
            # The last one is raised if the server ended the session and asyncpg only now notices.
            broken = (OSError, TimeoutError, asyncpg.InternalClientError)
            known = (asyncpg.PostgresError, asyncpg.InterfaceError, *broken)
            # SQLAlchemy wraps the error twice: in its own and in its dialect's.
            original = getattr(getattr(error, "orig", None), "__cause__", None) or error
            if not isinstance(original, known):
                raise
            names = ("sqlstate", "server_source_function", "context")
            fields = (getattr(original, name, None) for name in names)
            is_lost = self._driver.is_closed() or isinstance(original, broken)
            raise _to_psycopg(original, *fields, is_lost=is_lost) from error
        self._rows = [tuple(row) for row in rows]

    async def fetchall(self) -> Rows:
        return self._rows

    async def close(self) -> None:
        self._rows = ()


def sqlalchemy_on_asyncpg(connection: Any, driver: Any) -> AsyncpgConnection:
    """Return what `drive` needs for SQLAlchemy's AsyncConnection.

    SQLAlchemy starts asyncpg's transaction with its first statement, so it must send ours.
    """

    async def fetch(text: str, values: Sequence[Any]) -> Any:
        return (await connection.exec_driver_sql(text, tuple(values))).all()

    return AsyncpgConnection(driver, fetch)


@cache
def _number_placeholders(query: bytes) -> str:
    """Return the statement with the placeholders $1, $2, …"""
    first, *others = PLACEHOLDER.split(query.decode())
    return first + "".join(f"${number}{text}" for number, text in enumerate(others, 1))


def _to_psycopg(
    error: BaseException,
    state: str | None,
    function: str | None,
    context: str | None,
    *,
    is_lost: bool,
) -> psycopg.Error:
    """Return psycopg's error with the same message and these fields."""
    if not state:
        kind = psycopg.OperationalError if is_lost else psycopg.ProgrammingError
        return kind(str(error))
    info: dict[int, bytes | None] = {
        DiagnosticField.SQLSTATE: state.encode(),
        DiagnosticField.SOURCE_FUNCTION: (function or "").encode(),
        DiagnosticField.CONTEXT: (context or "").encode(),
    }
    try:
        known: type[psycopg.Error] = psycopg.errors.lookup(state)
    except KeyError:
        known = psycopg.DatabaseError
    return known(str(error), info=info)
