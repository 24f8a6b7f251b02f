"""A connector without pools: somebody else provides the connection of each call."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg

from inturn.database.connectors import PsycopgConnector


class UnpooledConnector(PsycopgConnector):
    """Always open. The app may be opened and closed all the same, which does nothing."""

    @property
    def is_open_async(self) -> bool:
        return True

    def open(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...

    async def open_async(self, *_: Any, **__: Any) -> None: ...

    async def close_async(self) -> None: ...

    # For `context.transaction()`, one of its own.

    @contextmanager
    def lend(self) -> Iterator[psycopg.Connection[Any]]:
        with self.connect("task") as own:
            yield own

    @asynccontextmanager
    async def lend_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await self.connect_async("task") as own:
            yield own
