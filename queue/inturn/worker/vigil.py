"""Whether those who defer must wake this worker. While all its claims are filled they need not, and they are spared the cost:
it says so in its row of `workers`, and takes that back before it may sleep.
"""

import time
from collections.abc import Sequence
from uuid import UUID

from inturn.operations import work
from inturn.worker.link import Link

BUSY_SECONDS = 0.25  # of filled claims only; then the two statements are well spent


class Vigil:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._awake = False  # what our row says, or may say
        self._horizon: str | None = None  # see next_wake.sql
        self._idle_at = time.monotonic()  # when a claim was last not filled

    def registered(self) -> None:
        """There is a new row. Who did not see it yet tells us nothing either."""
        self._awake = False
        self._horizon = None

    async def was_filled(self, worker_id: UUID) -> None:
        if not self._awake and time.monotonic() - self._idle_at > BUSY_SECONDS:
            self._awake = True  # before the call: its reply may get lost
            self._horizon = None
            await self._link.run(work.set_awake(worker_id, True))

    async def found_less(self, worker_id: UUID, queues: Sequence[str] | None) -> work.Wake:
        self._idle_at = time.monotonic()
        if self._awake:
            await self._link.run(work.set_awake(worker_id, False))
            self._awake = False
        # Only now, after that has committed, the look that decides whether to sleep.
        wake = await self._link.run(work.next_wake(queues, self._horizon))
        self._horizon = wake.horizon
        return wake
