"""The worker's connection for claiming and finishing: opened when needed, dropped when it fails."""

from typing import Any, TypeVar

import psycopg

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.errors import DatabaseUnavailable
from inturn.operations import Operation

T = TypeVar("T")


class Link:
    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def run(self, operation: Operation[T]) -> T:
        """Raise DatabaseUnavailable if it cannot be done now: its `outcome_unknown` says whether it may have taken effect."""
        if (
            self._connection is None or self._connection.closed
        ):  # closed: a cancelled call leaves it so
            self._connection = await self._connector.connect_async("worker")
        try:
            return await drive.run_async(operation, self._connection, self._connector.schema)
        except DatabaseUnavailable as error:
            if error.connection_lost:
                await self.close()
            raise

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
