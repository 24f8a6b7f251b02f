"""Connectors that need no opening, because each call uses its own connection."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any, TypeVar

import psycopg

from inturn.database import caller_connection, drive
from inturn.database.connectors import PsycopgConnector
from inturn.database.direct import DirectConnector
from inturn.database.pools import AsyncPool, Pool
from inturn.operations import Operation

T = TypeVar("T")


class UnpooledConnector(DirectConnector):
    """A connector that is always open. Opening or closing the app does nothing."""

    is_open_async = True
    _role = "command"  # of the connections of `run` and `run_async`

    def at(self, dsn: str | None = None, *, schema: str | None = None) -> PsycopgConnector:
        return PsycopgConnector(**self._settings_at(dsn, schema))

    def run(self, operation: Operation[T], connection: object = None) -> T:
        if connection is not None:
            own = caller_connection.find_connection(connection)
            return drive.run(operation, own, self.schema)
        with closing(self.connect(self._role)) as own:
            return drive.run(operation, own, self.schema)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        if connection is not None:
            own = await caller_connection.find_connection_async(connection)
            return await drive.run_async(operation, own, self.schema)
        async with await self.connect_async(self._role) as own:
            return await drive.run_async(operation, own, self.schema)

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        with self.connect("task") as own:
            yield own

    @asynccontextmanager
    async def lend_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await self.connect_async("task") as own:
            yield own

    def open(self, pool: Pool | None = None) -> None: ...

    def close(self) -> None: ...

    async def open_async(self, pool: AsyncPool | None = None) -> None: ...

    async def open_async_later(self) -> None: ...

    async def close_async(self) -> None: ...
