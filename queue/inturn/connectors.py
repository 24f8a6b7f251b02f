"""Connections: two pools for what is deferred, opened when first needed, and single ones for a worker.

A job deferred here without `connection=` is committed when the call returns.
"""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from inturn import drive, guests
from inturn.errors import AppNotOpen, ConfigurationError
from inturn.operations import Operation
from inturn.sql import SCHEMA

T = TypeVar("T")
AUTOCOMMIT = {"autocommit": True}
NOT_OPEN = "The app is not open. Defer inside `with app.open():` or `async with app.open_async():`."


class PsycopgConnector:
    """Where the queue lives: a DSN (default: INTURN_DSN, DATABASE_URL, or libpq's PG variables) and a schema."""

    def __init__(
        self, dsn: str | None = None, *, schema: str = SCHEMA, min_size: int = 1, max_size: int = 10, **options: Any
    ) -> None:
        self._dsn = dsn
        self.schema = schema
        self._options = options
        self._min_size = min_size
        self._max_size = max_size
        self._opens = 0  # how often it was opened and not closed
        self._opening = Lock()
        self._pool: ConnectionPool[psycopg.Connection[Any]] | None = None
        self._async_pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]] | None = None

    @property
    def dsn(self) -> str:
        return make_conninfo(find_dsn(self._dsn), **self._options)

    @property
    def is_open_async(self) -> bool:
        return self._async_pool is not None

    def run(self, operation: Operation[T], connection: object = None) -> T:
        if connection is not None:
            return drive.run(operation, guests.guest(connection), self.schema)
        with drive.translated(), self._sync_pool().connection() as own:
            return drive.run(operation, own, self.schema)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        if connection is not None:
            return await drive.run_async(operation, await guests.guest_async(connection), self.schema)
        if self._async_pool is None:
            raise AppNotOpen(NOT_OPEN)
        with drive.translated():
            async with self._async_pool.connection() as own:
                return await drive.run_async(operation, own, self.schema)

    def connect(self, role: str = "command") -> psycopg.Connection[Any]:
        """A connection of its own, outside the pools: committing each statement, called `inturn role` on the server."""
        with drive.translated():
            return psycopg.connect(self.dsn, autocommit=True, application_name=f"inturn {role}")

    async def connect_async(self, role: str) -> psycopg.AsyncConnection[Any]:
        """A connection of its own, outside the pools: committing each statement, called `inturn role` on the server."""
        with drive.translated():
            return await psycopg.AsyncConnection.connect(self.dsn, autocommit=True, application_name=f"inturn {role}")

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool, for a transaction of the caller's."""
        with self._sync_pool().connection() as own:
            yield own

    @asynccontextmanager
    async def lend_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection of the pool, for a transaction of the caller's."""
        if self._async_pool is None:
            raise AppNotOpen(NOT_OPEN)
        async with self._async_pool.connection() as own:
            yield own

    def open(self) -> None:
        self._opens += 1
        self._sync_pool()

    def close(self) -> None:
        self._opens = max(0, self._opens - 1)
        if not self._opens:
            pool, self._pool = self._pool, None
            if pool is not None:
                pool.close()

    async def open_async(self) -> None:
        self._opens += 1
        if self._async_pool is None:
            pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]] = AsyncConnectionPool(
                self.dsn, open=False, kwargs=AUTOCOMMIT, min_size=self._min_size, max_size=self._max_size
            )
            with drive.translated():
                await pool.open()
            self._async_pool = pool

    async def close_async(self) -> None:
        pool, self._async_pool = self._async_pool, None
        if pool is not None:
            await pool.close()
        self.close()

    def _sync_pool(self) -> ConnectionPool[psycopg.Connection[Any]]:
        """Opened on the first sync call: sync tasks of an async worker may defer too."""
        with self._opening:
            if not self._opens:
                raise AppNotOpen(NOT_OPEN)
            if self._pool is None:
                pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
                    self.dsn, open=False, kwargs=AUTOCOMMIT, min_size=self._min_size, max_size=self._max_size
                )
                with drive.translated():
                    pool.open()
                self._pool = pool
            return self._pool


def find_dsn(given: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """The given one, else INTURN_DSN, else DATABASE_URL, else what libpq reads from PG variables."""
    sources = [("the DSN", given), *((name, environment.get(name)) for name in ("INTURN_DSN", "DATABASE_URL"))]
    for source, dsn in sources:
        if dsn:
            return _checked(source, dsn)
    if any(environment.get(name) for name in ("PGHOST", "PGDATABASE", "PGSERVICE", "PGUSER")):
        return ""
    raise ConfigurationError("No database is named. Pass a DSN, or set INTURN_DSN=postgresql://user@host/database")


def _checked(source: str, dsn: str) -> str:
    # SQLAlchemy's spelling of the same address.
    plain = dsn.replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        conninfo_to_dict(plain)
    except psycopg.ProgrammingError:
        # Not the driver's message: it repeats the text, and with it the password.
        raise ConfigurationError(
            f"{source} is no PostgreSQL address. Write postgresql://user@host:5432/database"
        ) from None
    return plain
