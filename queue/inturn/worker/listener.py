"""Hears that there may be work. Nothing depends on it: what it misses, the worker's poll finds."""

import logging
from collections.abc import Callable, Sequence

import anyio
import psycopg
from psycopg.sql import SQL, Identifier

from inturn.connectors import PsycopgConnector
from inturn.errors import DatabaseUnavailable

logger = logging.getLogger(__name__)
LONGEST_PAUSE = 30.0


ABORT = "!"  # the payload of cancel_job.sql: somebody's running job is to end


async def listen(
    connector: PsycopgConnector, queues: Sequence[str] | None, ring: Callable[[], None], abort: Callable[[], None]
) -> None:
    """For ever; a lost connection is made anew."""
    pause = 0.1
    while True:
        try:
            async with await connector.connect_async("listener", to_listen=True) as connection:
                await connection.execute(SQL("LISTEN {}").format(Identifier(connector.schema)))
                pause = 0.1
                ring()  # for what was sent before we listened
                abort()
                async for notification in connection.notifies():
                    if notification.payload == ABORT:
                        abort()
                    elif concerns(notification.payload, queues):
                        ring()
        except (DatabaseUnavailable, psycopg.Error) as error:
            logger.warning("listen.lost: %s; polling meanwhile, next try in %.1f s", error, pause)
        await anyio.sleep(pause)
        pause = min(LONGEST_PAUSE, 2 * pause)


def concerns(payload: str, queues: Sequence[str] | None) -> bool:
    """The payload names queues, or nothing: everybody."""
    return not payload or queues is None or not set(queues).isdisjoint(payload.split(","))
