"""The interface of connectors that the rest of the package uses."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

import psycopg

from inturn.database.pools import AsyncPool, Pool, PoolUse
from inturn.database.session import AsyncSession, Session
from inturn.operations import Operation
from inturn.values import JsonDumps, JsonLoads

T = TypeVar("T")


class Connector(Protocol):
    """Where the queue lives, and how to reach it. Usually a `PsycopgConnector`.

    def show(connector: BaseConnector) -> None:
        print(connector.schema)

    show(app.connector)
    """

    schema: str
    json_dumps: JsonDumps | None
    json_loads: JsonLoads | None

    @property
    def dsn(self) -> str:
        """Return the address in libpq's form, resolved each time: the environment may change."""

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> Connector:
        """Return a connector to another database or schema, with this one's settings."""

    def run(self, operation: Operation[T], connection: object = None) -> T:
        """Run one of `inturn.operations`, on the caller's connection if given."""

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        """Like `run`, in an event loop."""

    def connect(
        self, role: str = "command", *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> Session:
        """Open a separate connection that commits each statement."""

    async def connect_async(
        self, role: str, *, to_listen: bool = False, lock_timeout: float | None = None
    ) -> AsyncSession:
        """Like `connect`, in an event loop."""

    def lend(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Lend a connection for one of the caller's transactions."""

    def lend_async(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]:
        """Like `lend`, in an event loop."""

    def open(self, pool: Pool | None = None) -> None:
        """Make `run` possible. `App.open` calls it."""

    def close(self) -> None:
        """Undo `open`."""

    async def open_async(self, pool: AsyncPool | None = None) -> None:
        """Make `run_async` possible. `App.open_async` calls it."""

    async def open_async_later(self) -> None:
        """Make `run_async` possible, but connect only on its first call."""

    async def close_async(self) -> None:
        """Undo `open_async`, or `open_async_later`."""

    def count_pooled(self) -> PoolUse:
        """Return how many connections the pools have, for metrics. Some connectors have none."""

    @property
    def is_open_async(self) -> bool:
        """True if `run_async` can be called."""
