"""Whether producers must notify this worker.

As long as its claims find jobs, producers need not notify the worker. The worker sets a flag
in its row of `workers`, and clears it before it may sleep.
"""

import time
from collections.abc import Sequence

from inturn.operations import claim
from inturn.worker.connection import WorkerConnection
from inturn.worker.registration import Registration

# The flag costs two statements. They pay off once all claims of this many seconds were filled,
BUSY_SECONDS = 0.25
# or once this many claims in a row found jobs, each within GAP_SECONDS of the one before.
IN_A_ROW = 20
GAP_SECONDS = 0.01


class AwakeFlag:
    """The flag `awake` in the worker's row. Call one method after each claim."""

    def __init__(
        self,
        connection: WorkerConnection,
        registration: Registration,
        queues: Sequence[str] | None,
    ) -> None:
        self._connection = connection
        self._registration = registration
        self._queues = queues
        self._awake = False  # what our row says, or may say
        self._horizon: str | None = None  # see next_wake.sql
        self._idle_at = time.monotonic()  # when a claim was last not filled
        self._found_at = 0.0  # when a claim last found something
        self._in_a_row = 0

    def reset(self) -> None:
        """Start again with a new row. Producers that do not see it yet do not notify us."""
        self._awake = False
        self._horizon = None

    async def note_filled(self) -> None:
        """Note that a claim returned as many jobs as it asked for."""
        self._note_found()
        if time.monotonic() - self._idle_at > BUSY_SECONDS:
            await self._set()

    async def found_some(self) -> bool:
        """Note that a claim found some jobs. Return True if the worker is to look by itself."""
        self._idle_at = time.monotonic()
        self._note_found()
        if self._in_a_row >= IN_A_ROW:
            await self._set()
        return self._awake

    async def found_less(self) -> claim.Wake:
        """Clear the flag, since the worker may sleep now. Return when it is to wake up."""
        worker_id = self._registration.worker_id
        self._idle_at = time.monotonic()
        if self._awake:
            self._awake = not await self._connection.run(claim.set_awake(worker_id, False))
        # This look decides whether to sleep, so it must come after the flag's commit.
        wake = await self._connection.run(claim.next_wake(self._queues, self._horizon))
        if self._awake:  # somebody has locked our row, so nobody will notify us of a job
            return wake._replace(notified=False)
        self._horizon = wake.horizon
        return wake

    def _note_found(self) -> None:
        now = time.monotonic()
        self._in_a_row = self._in_a_row + 1 if now - self._found_at < GAP_SECONDS else 0
        self._found_at = now

    async def _set(self) -> None:
        if not self._awake:
            self._awake = True  # before the call: its reply may get lost
            self._horizon = None
            await self._connection.run(claim.set_awake(self._registration.worker_id, True))
