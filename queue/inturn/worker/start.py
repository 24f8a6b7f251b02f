"""The start of a worker whose database is away: whoever has given a wrong address sees the error at once; whoever has said how long
an outage may last has the worker wait for it.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from inturn.errors import DatabaseUnavailable
from inturn.worker.backoff import Backoff

T = TypeVar("T")
logger = logging.getLogger("inturn.worker.worker")
OUTAGE_PAUSES = (
    0.1,
    1.0,
)  # seconds before the next try: at first, and at most, however long the database is away


def grace_is_over(grace: float, error: DatabaseUnavailable) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"The database was away for longer than db_grace ({grace:g} s): {error}"
    )


async def patiently(
    step: Callable[[], Awaitable[T]],
    grace: float | None,
    is_told_to_end: Callable[[], bool] = lambda: False,
) -> T:
    """Try again for `grace` seconds while the database is away; None: do not."""
    until = time.monotonic() + (grace or 0.0)
    pauses = Backoff(*OUTAGE_PAUSES)
    while True:
        try:
            return await step()
        except DatabaseUnavailable as error:
            if grace is None or is_told_to_end():
                raise
            left = until - time.monotonic()
            if left <= 0:
                raise grace_is_over(grace, error) from error
            pause = min(pauses.next(), left)
            logger.warning("database.away: %s; next try in %.1f s", error, pause)
            await anyio.sleep(pause)
