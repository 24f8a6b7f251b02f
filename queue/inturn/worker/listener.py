"""Hears that there may be work. Nothing depends on it: what it misses, the worker's poll finds."""

import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import psycopg
from psycopg.sql import SQL, Identifier

from inturn.database.connector import Connector
from inturn.errors import ConnectorException, DatabaseUnavailable

logger = logging.getLogger(__name__)
LONGEST_PAUSE = 1.0  # seconds, more or less: without notifications a job waits for the poll
LOOK = 5.0  # seconds; whoever only listens does not notice that its connection leads nowhere


ABORT = "!"  # the payload of cancel_job.sql: somebody's running job is to end


async def listen(
    connector: Connector,
    queues: Sequence[str] | None,
    ring: Callable[[], None],
    abort: Callable[[], None],
) -> None:
    """For ever; a lost connection is made anew."""
    pause = 0.1
    was_lost = False
    while True:
        try:
            async with await connector.connect_async("listener", to_listen=True) as connection:
                await connection.execute(SQL("LISTEN {}").format(Identifier(connector.schema)))
                pause = 0.1
                was_lost = False
                ring()  # for what was sent before we listened
                abort()
                while True:
                    async for notification in connection.notifies(timeout=LOOK):
                        if notification.payload == ABORT:
                            abort()
                        elif concerns(notification.payload, queues):
                            ring()
                    await _check(connection)
        except (ConnectorException, psycopg.Error) as error:
            level = logging.DEBUG if was_lost else logging.WARNING  # said once for each outage
            logger.log(level, "listen.lost: %s; polling until it is back", error)
            was_lost = True
        await anyio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 (so that not all come back in one moment)
        pause = min(LONGEST_PAUSE, 2 * pause)


async def _check(connection: psycopg.AsyncConnection[Any]) -> None:
    """Raise if the connection leads nowhere, or to a server on which nothing is notified any more."""
    cursor = await connection.execute("SHOW transaction_read_only")
    if await cursor.fetchall() == [("on",)]:
        raise DatabaseUnavailable(
            "the server is read-only by now: perhaps another one has taken over"
        )


def concerns(payload: str, queues: Sequence[str] | None) -> bool:
    """The payload names queues, or nothing: everybody."""
    return not payload or queues is None or not set(queues).isdisjoint(payload.split(","))
