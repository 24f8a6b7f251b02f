"""Listens for notifications that there may be work.

Nothing depends on it: the worker's poll finds what it misses.
"""

import logging
import random
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import anyio
import psycopg
from psycopg.sql import SQL, Identifier

from inturn.database.connector import Connector
from inturn.errors import DatabaseUnavailable
from inturn.worker.failure_log import FailureLog

logger = logging.getLogger(__name__)
FIRST_PAUSE = 0.1  # approximate seconds before the next try to connect
LONGEST_PAUSE = 1.0  # without notifications, a job waits for the poll
LOOK = 5.0  # seconds; a session that only listens does not notice that its server is gone

ABORT = "!"  # the payload of cancel_job.sql: an operator wants a running job to end


class Listener:
    """Calls `wake` when there may be work, and `abort` when a job should be aborted."""

    def __init__(
        self,
        connector: Connector,
        queues: Sequence[str] | None,
        *,
        wake: Callable[[], object],
        abort: Callable[[], object],
    ) -> None:
        self._connector = connector
        self._queues = queues
        self._wake = wake
        self._abort = abort
        self.is_connected = False
        self._pause = FIRST_PAUSE
        self._failures = FailureLog(logger, "listen.lost", reminder=inf)  # the worker polls

    @property
    def trouble(self) -> str | None:
        """Return why the database refuses its calls, or None if it does not."""
        return self._failures.trouble

    async def run(self) -> None:
        """Listen forever. Reconnect when the connection is lost."""
        while True:
            try:
                async with await self._connector.connect_async(
                    "listener", to_listen=True
                ) as connection:
                    await self._begin(connection)
                    while True:
                        await self.run_once(connection)
            except Exception as error:  # whatever it is, the worker keeps polling
                self._failures.note(error, self._pause)
            finally:
                self.is_connected = False
            # Randomized, so that workers do not all come back at once.
            await anyio.sleep(self._pause * random.uniform(0.5, 1.5))  # noqa: S311 (it protects nothing)
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)

    async def _begin(self, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(SQL("LISTEN {}").format(Identifier(self._connector.schema)))
        self.is_connected = True
        self._pause = FIRST_PAUSE
        self._failures.forget()
        self._wake()  # for notifications sent before we listened
        self._abort()

    async def run_once(
        self, connection: psycopg.AsyncConnection[Any], seconds: float | None = None
    ) -> None:
        """Pass on notifications for some seconds, then check the connection."""
        async for notification in connection.notifies(timeout=LOOK if seconds is None else seconds):
            if notification.payload == ABORT:
                self._abort()
            elif concerns(notification.payload, self._queues):
                self._wake()
        await _check(connection)


async def _check(connection: psycopg.AsyncConnection[Any]) -> None:
    """Raise if the connection is dead, or if its server no longer sends notifications."""
    cursor = await connection.execute("SHOW transaction_read_only")
    if await cursor.fetchall() == [("on",)]:
        raise DatabaseUnavailable(
            "the server has become read-only; another one may have taken over"
        )


def concerns(payload: str, queues: Sequence[str] | None) -> bool:
    """Return True if the payload names one of the queues, or none, which means all."""
    return not payload or queues is None or not set(queues).isdisjoint(payload.split(","))
