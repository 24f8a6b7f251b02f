"""Listens for notifications that there may be work.

Nothing depends on it: the worker's poll finds what it misses.
"""

import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import anyio
import psycopg
from psycopg.sql import SQL, Identifier

from inturn.database.connector import Connector
from inturn.database.drive import translate_errors
from inturn.errors import DatabaseUnavailable
from inturn.worker.retrying import OUTAGE_PAUSES, Backoff, FailureLog

logger = logging.getLogger(__name__)
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
        self._pauses = Backoff(*OUTAGE_PAUSES)
        self._failures = FailureLog(logger, "listen.lost", reminder=inf)  # the worker polls

    @property
    def trouble(self) -> str | None:
        return self._failures.trouble

    async def run(self) -> None:
        """Listen forever. Reconnect when the connection is lost."""
        while True:
            try:
                with translate_errors():
                    await self._listen()
            except Exception as error:  # whatever it is, the worker keeps polling
                pause = self._pauses.next()
                self._failures.note(error, pause)
                await anyio.sleep(pause)

    async def _listen(self) -> None:
        listen = SQL("LISTEN {}").format(Identifier(self._connector.schema))
        moves = self._connector.moves
        try:
            async with await self._connector.connect_async(
                "listener", to_listen=True
            ) as connection:
                await connection.execute(listen)
                self.is_connected = True
                self._pauses.reset()
                self._failures.forget()
                self._wake()  # for notifications sent before we listened
                self._abort()
                while self._connector.moves == moves:
                    await self.run_once(connection)
        finally:
            self.is_connected = False

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
