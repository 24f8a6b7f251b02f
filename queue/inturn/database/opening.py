"""The result of `app.open_async()`."""

from collections.abc import Generator
from typing import Any, Generic, TypeVar

from inturn.database.connector import Connector
from inturn.database.pools import AsyncPool

T = TypeVar("T")


class Opening(Generic[T]):
    """Opens an app when it is awaited or entered with `async with`."""

    def __init__(self, app: T, connector: Connector, pool: AsyncPool | None) -> None:
        self._app = app
        self._connector = connector
        self._pool = pool

    def __await__(self) -> Generator[Any, None, T]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> T:
        await self._connector.open_async(self._pool)
        return self._app

    async def __aexit__(self, *_: object) -> None:
        await self._connector.close_async()
