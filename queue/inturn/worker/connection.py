"""A connection of the worker's loop. There are two: one for claims, and one for everything else."""

from typing import TypeVar

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.database.session import AsyncSession
from inturn.errors import ConnectorException, DatabaseUnavailable, InturnError
from inturn.operations import Operation
from inturn.worker.error_text import name

T = TypeVar("T")


class WorkerConnection:
    """A connection that is opened on demand and dropped when it fails."""

    def __init__(self, connector: Connector) -> None:
        self.schema = connector.schema
        self._connector = connector
        self._connection: AsyncSession | None = None

    async def run(self, operation: Operation[T]) -> T:
        """Run one operation and return its result.

        Raise DatabaseUnavailable if that is impossible now. The error's `outcome_unknown` tells
        whether the call may have taken effect.
        """
        # A call that was cancelled leaves the connection closed.
        if self._connection is None or self._connection.closed:
            self._connection = await self._connector.connect_async("worker")
        try:
            cursor = self._connection.kept_cursor()
            return await drive.run_on_async(cursor, operation, self.schema)
        except DatabaseUnavailable as error:
            if error.connection_lost:
                await self.close()
            raise
        except InturnError as error:  # it is unexpected, so another session may do better
            error = await self._connector._explain_call_async(error, self._connection)
            await self.close()
            raise error
        except Exception as error:  # the server did its part, but we cannot read its reply
            await self.close()
            reason = name(error)
            raise ConnectorException(f"The database's reply cannot be read: {reason}") from error

    async def run_beside(self, operation: Operation[T]) -> T | None:
        """Run one operation, after the call that another task may be making on this connection.

        Return None if it is not open.
        """
        if self._connection is None:
            return None
        return await self._connector.run_async(operation, self._connection)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
