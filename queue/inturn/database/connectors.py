"""Connectors that keep connection pools, opened on first use.

A job deferred through them without `connection=` is committed when the call returns.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any, TypeVar

import psycopg

from inturn.database import drive, forks, pools
from inturn.database.connector import Connector
from inturn.database.pools import AsyncPool, Pool, PoolUse
from inturn.database.session import AsyncSession, check_event_loop
from inturn.errors import (
    AppNotOpen,
    ConfigurationError,
    DatabaseUnavailable,
    SyncConnectorConfigurationError,
)
from inturn.operations import Operation
from inturn.sql import SCHEMA
from inturn.values import JsonDumps, JsonLoads

T = TypeVar("T")
SYNC_ONLY = (
    "SyncPsycopgConnector cannot be used from async code or by a worker. Give the App a "
    "PsycopgConnector, which also works from sync code."
)
NOT_OPEN = "The app is not open. Defer inside `with app.open():` or `async with app.open_async():`."
# Options of other connectors, and what to use here instead.
REFUSED = {
    **dict.fromkeys(
        ("configure", "check", "reset", "pool_factory", "connection_class"),
        "open your own pool, and pass it to app.open(pool)",
    ),
    "reconnect_timeout": "omit it: the pool retries every second",
    "reconnect_failed": "omit it: the next call raises the error",
    "open": "omit it: app.open() opens the pool",
}
BaseConnector = Connector  # procrastinate's name for annotations


def refuse_pool_options(options: Mapping[str, Any]) -> None:
    """Raise for a pool option that this connector's own pool does not support."""
    for option in options.keys() & REFUSED.keys():
        raise ConfigurationError(
            f"The connector does not accept {option}=. Instead, {REFUSED[option]}."
        )


class PsycopgConnector(Connector):
    """Where the queue lives: a DSN and a schema.

    PsycopgConnector("postgresql://user@host/database", schema="jobs", max_size=20)

    Without a DSN it uses INTURN_DSN, DATABASE_URL, or libpq's PG variables.

    min_size, max_size: the size of the pool that your calls use.
    name, max_lifetime, max_idle, max_waiting, num_workers: options of psycopg's pool.
    kwargs: libpq's options, which you can also pass by name, as in `sslmode="require"`.
    timeout: the seconds to wait for a connection, or for a server that has stopped responding,
    before the call raises DatabaseUnavailable. A statement may take longer; see docs/outages.md.
    call_timeout: the limit for a call behind a pooler. None means no limit.
    listen_dsn: an address that bypasses a pooler in transaction mode, where LISTEN does not work.
    It defaults to INTURN_LISTEN_DSN. Without it, workers behind such a pooler poll.
    json_dumps, json_loads: your own functions to encode job arguments as JSON, and to decode them
    before a task runs; see docs/values.md.
    prepare_threshold: set it to None for a pooler without support for prepared statements, such as
    PgBouncer before 1.21.

    Unless the address sets them, `connect_timeout` is `timeout`, and TCP detects a vanished peer
    after ten seconds (`keepalives…`, `tcp_user_timeout`).
    """

    _pool: Pool | None = None
    _async_pool: AsyncPool | None = None
    _opens_async_later = False  # the first call opens the async pool
    _opens = 0  # how many `open` calls are not yet closed
    _async_opens = 0  # how many of these were in an event loop

    def __init__(
        self,
        dsn: str | None = None,
        *,
        conninfo: str | None = None,
        schema: str = SCHEMA,
        min_size: int = 1,
        max_size: int = 10,
        prepare_threshold: int | None = 5,
        listen_dsn: str | None = None,
        timeout: float = 5.0,
        call_timeout: float | None = 30.0,
        json_dumps: JsonDumps | None = None,
        json_loads: JsonLoads | None = None,
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        max_lifetime: float = 3600.0,
        max_idle: float = 600.0,
        max_waiting: int = 0,
        num_workers: int = 3,
        **options: Any,
    ) -> None:
        refuse_pool_options(options)
        super().__init__(
            dsn,
            conninfo=conninfo,
            schema=schema,
            prepare_threshold=prepare_threshold,
            listen_dsn=listen_dsn,
            timeout=timeout,
            call_timeout=call_timeout,
            json_dumps=json_dumps,
            json_loads=json_loads,
            kwargs=kwargs,
            **options,
        )
        self._pool_options: dict[str, Any] = {
            "min_size": min_size,
            "max_size": max_size,
            "name": name,
            "max_lifetime": max_lifetime,
            "max_idle": max_idle,
            "max_waiting": max_waiting,
            "num_workers": num_workers,
        }
        # A name for pg_stat_activity, unless your address or PGAPPNAME has one.
        self._pooled = {**self._session, "fallback_application_name": "inturn pool"}
        self._opening = Lock()  # guards the pools and their counts
        self._lent: list[Pool | AsyncPool] = []  # the caller's pools, which the caller closes
        forks.forget_in_child(self, lambda connector: connector._forget())

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> PsycopgConnector:
        """Return a connector to another database or schema, with the settings of this one."""
        settings = self._settings_at(dsn, schema)
        return PsycopgConnector(**self._pool_options, **settings)

    @property
    def is_open_async(self) -> bool:
        """True if `run_async` can be called."""
        return self._async_pool is not None or self._opens_async_later

    def count_pooled(self) -> PoolUse:
        """Return how many connections the pools have, for metrics."""
        stats = [pool.get_stats() for pool in (self._pool, self._async_pool) if pool is not None]
        names = ("pool_size", "pool_available", "requests_waiting")
        return PoolUse(*(sum(each.get(name, 0) for each in stats) for name in names))

    def run(self, operation: Operation[T], connection: object = None) -> T:
        """Run one of `inturn.operations` on your connection, or on one from the pool."""
        if connection is not None:
            return super().run(operation, connection)
        pool, again = self._sync_pool(), drive.Repeatable(operation)
        since = 0.0
        while True:
            own = pools.take(pool, self._timeout, since)
            try:
                # Not `with own`: that commits, and an autocommit connection has nothing to commit.
                done = drive.run_on(pools.find_cursor(own), again, self.schema)
                if not own.autocommit:
                    with drive.translate_errors():
                        own.commit()
                return done
            except DatabaseUnavailable as error:
                if error.connection_lost:
                    pools.distrust(pool, own, error.__cause__)
                    since = time.monotonic()
                if not again.may_repeat(error):
                    raise
            finally:
                pool.putconn(own)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        """Like `run`, in an event loop."""
        if connection is not None:
            return await super().run_async(operation, connection)
        pool, again = await self._find_async_pool(), drive.Repeatable(operation)
        since = 0.0
        while True:
            own = await pools.take_async(pool, self._timeout, since)
            try:
                cursor = pools.find_cursor_async(own)
                done = await drive.run_on_async(cursor, again, self.schema)
                if not own.autocommit:
                    with drive.translate_errors():
                        await own.commit()
                return done
            except DatabaseUnavailable as error:
                if error.connection_lost:
                    await pools.distrust_async(pool, own, error.__cause__)
                    since = time.monotonic()
                if not again.may_repeat(error):
                    raise
            finally:
                await pool.putconn(own)

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a pooled connection for a transaction of yours.

        Raise DatabaseUnavailable if the connection is lost.
        """
        pool = self._sync_pool()
        own = pools.take(pool, self._timeout)
        try:
            with pools.lend(own), own:
                yield own
        finally:
            if own.closed:
                pools.distrust(pool, own)
            pool.putconn(own)

    @asynccontextmanager
    async def lend_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Like `lend`, in an event loop."""
        pool = await self._find_async_pool()
        own = await pools.take_async(pool, self._timeout)
        try:
            with pools.lend(own):
                async with own:
                    yield own
        finally:
            if own.closed:
                await pools.distrust_async(pool, own)
            await pool.putconn(own)

    def open(self, pool: Pool | None = None) -> None:
        """Open the pool, or use your own `pool`, which `close` leaves open."""
        with self._opening:
            if pool is not None:
                self._pool = pool
                self._lent.append(pool)
            elif self._pool is None:
                self._pool = self._new_pool()
            self._opens += 1  # last, so that a failed opening does not count

    def close(self) -> None:
        """Undo one `open`. The last of these calls closes the pool."""
        with self._opening:
            self._opens = max(0, self._opens - 1)
            if self._opens:
                return
            pool, self._pool = self._pool, None
            if pool is None or self._was_lent(pool):
                return
        pool.close()

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        """Like `open`, in an event loop."""
        new = None
        if pool is None and self._async_pool is None:
            terms = self._terms("pool")
            new = await pools.open_async(terms, self._pooled, self._pool_options)
        with self._opening:
            if pool is not None:
                self._async_pool = pool
                self._lent.append(pool)
            elif self._async_pool is None:
                self._async_pool, new = new, None
            self._opens += 1
            self._async_opens += 1
        if new is not None:  # another task was faster
            await new.close()

    async def open_async_later(self) -> None:
        """Like `open_async`, but the first call connects, and fails if the database is away."""
        check_event_loop()
        with self._opening:
            self._opens_async_later = True
            self._opens += 1
            self._async_opens += 1

    async def close_async(self) -> None:
        """Undo one `open_async`, and do what `close` does. The last of these closes the pool."""
        pool = None
        with self._opening:
            self._async_opens = max(0, self._async_opens - 1)
            if not self._async_opens:
                self._opens_async_later = False
                pool, self._async_pool = self._async_pool, None
            is_ours = pool is not None and not self._was_lent(pool)
        if pool is not None and is_ours:
            await pool.close()
        self.close()

    def _forget(self) -> None:
        """Leave the connections to the parent of this forked process. The next call connects."""
        self._opening = Lock()
        if self._pool not in self._lent:
            forks.abandon(self._pool)
            self._pool = None
        if self._async_pool is not None and self._async_pool not in self._lent:
            forks.abandon(self._async_pool)
            self._async_pool, self._opens_async_later = None, True

    def _was_lent(self, pool: Pool | AsyncPool) -> bool:
        if pool not in self._lent:
            return False
        self._lent.remove(pool)
        return True

    def _sync_pool(self) -> Pool:
        """Return the pool, opening it if necessary: sync tasks of an async worker defer too."""
        with self._opening:
            if not self._opens:
                raise AppNotOpen(NOT_OPEN)
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def _new_pool(self) -> Pool:
        return pools.open_sync(self._terms("pool"), self._pooled, self._pool_options)

    async def _find_async_pool(self) -> AsyncPool:
        pool = self._async_pool
        if self._opens_async_later and (pool is None or pool.closed):
            with self._opening:
                if self._async_pool is None:
                    terms = self._terms("pool")
                    self._async_pool = pools.new_async(terms, self._pooled, self._pool_options)
                pool = self._async_pool
            await pool.open()  # does nothing if another task opened it
        if pool is None:
            raise AppNotOpen(NOT_OPEN)
        return pool


class SyncPsycopgConnector(PsycopgConnector):
    """A connector for programs that never defer from async code, such as a script or Django site.

        app = App(connector=SyncPsycopgConnector(dsn))
        with app.open():
            app.configure_task("billing.charge").defer(order=1)

    Everything async raises SyncConnectorConfigurationError, and so does a worker.
    """

    async def connect_async(
        self, role: str, *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> AsyncSession:
        raise SyncConnectorConfigurationError(SYNC_ONLY)

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        raise SyncConnectorConfigurationError(SYNC_ONLY)

    async def open_async_later(self) -> None:
        raise SyncConnectorConfigurationError(SYNC_ONLY)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        raise SyncConnectorConfigurationError(SYNC_ONLY)
