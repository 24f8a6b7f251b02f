"""How an app under test reaches its database."""

import contextlib
from threading import Lock
from typing import Any, TypeVar

import psycopg

from inturn import drive
from inturn.connectors import PsycopgConnector
from inturn.operations import Operation

T = TypeVar("T")


class OpenConnector(PsycopgConnector):
    """Needs no opening, belongs to no event loop, and leaves nothing behind in one: each test has a loop of its own."""

    def __init__(self, dsn: str, *, schema: str) -> None:
        super().__init__(dsn, schema=schema)
        self._using = Lock()
        self._kept: psycopg.Connection[Any] | None = None

    @property
    def is_open_async(self) -> bool:
        return True

    def run(self, operation: Operation[T], connection: object = None) -> T:
        if connection is not None:
            return super().run(operation, connection)
        with self._using:
            if self._kept is None or self._kept.closed:
                self._kept = self.connect("test")
            return drive.run(operation, self._kept, self.schema)

    async def run_async(self, operation: Operation[T], connection: object = None) -> T:
        if connection is not None:
            return await super().run_async(operation, connection)
        async with await self.connect_async("test") as own:
            return await drive.run_async(operation, own, self.schema)

    def open(self) -> None:
        """Code under test may open the app and close it again."""

    def close(self) -> None: ...

    async def open_async(self) -> None: ...

    async def close_async(self) -> None: ...

    def let_go(self) -> None:
        with self._using, contextlib.closing(self._kept) if self._kept else contextlib.nullcontext():
            self._kept = None
