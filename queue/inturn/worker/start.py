"""The start of a worker whose database is away.

With `db_grace`, the worker waits that long for the database. Without it, the error is raised at
once, since the address may be wrong.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from inturn.errors import ConnectorException, DatabaseUnavailable, InturnError
from inturn.worker.backoff import OUTAGE_PAUSES, Backoff

T = TypeVar("T")
logger = logging.getLogger(__name__)


def grace_is_over(grace: float, error: InturnError) -> DatabaseUnavailable:
    """Return the error that ends a worker after too long an outage."""
    return DatabaseUnavailable(
        f"The database was away for longer than db_grace ({grace:g} s): {error}"
    )


async def patiently(
    step: Callable[[], Awaitable[T]],
    grace: float | None,
    is_told_to_end: Callable[[], bool] = lambda: False,
) -> T:
    """Run a step, and retry for `grace` seconds while the database is away or refuses it.

    If `grace` is None, or once the worker is told to end, raise the error at once.
    """
    until = time.monotonic() + (grace or 0.0)
    pauses = Backoff(*OUTAGE_PAUSES)
    while True:
        try:
            return await step()
        except ConnectorException as error:  # it is away, or refuses the call
            if grace is None or is_told_to_end():
                raise
            left = until - time.monotonic()
            if left <= 0:
                raise grace_is_over(grace, error) from error
            pause = min(pauses.next(), left)
            logger.warning("database.away: %s; next try in %.1f s", error, pause)
            await anyio.sleep(pause)
