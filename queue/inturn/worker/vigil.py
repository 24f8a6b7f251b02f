"""Whether those who defer must wake this worker. While its claims keep finding jobs they need not, and they are spared the cost:
it says so in its row of `workers`, and takes that back before it may sleep.
"""

import time
from collections.abc import Sequence
from uuid import UUID

from inturn.operations import claim
from inturn.worker.link import Link

BUSY_SECONDS = 0.25  # of filled claims only, however seldom ...
GAP_SECONDS = 0.01  # ... or so many claims that found something, each so soon after the one before:
IN_A_ROW = 20  # then the two statements are well spent


class Vigil:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._awake = False  # what our row says, or may say
        self._horizon: str | None = None  # see next_wake.sql
        self._idle_at = time.monotonic()  # when a claim was last not filled
        self._found_at = 0.0  # when a claim last found something
        self._in_a_row = 0

    def registered(self) -> None:
        """There is a new row. Who did not see it yet tells us nothing either."""
        self._awake = False
        self._horizon = None

    async def was_filled(self, worker_id: UUID) -> None:
        self._note_found()
        if time.monotonic() - self._idle_at > BUSY_SECONDS:
            await self._rise(worker_id)

    async def found_some(self, worker_id: UUID) -> bool:
        """The claim was not filled. True: jobs keep coming, and we look again by ourselves."""
        self._idle_at = time.monotonic()
        self._note_found()
        if self._in_a_row >= IN_A_ROW:
            await self._rise(worker_id)
        return self._awake

    async def found_less(self, worker_id: UUID, queues: Sequence[str] | None) -> claim.Wake:
        """Before we may sleep, when we lie down: the last look."""
        self._idle_at = time.monotonic()
        if self._awake:
            self._awake = not await self._link.run(claim.set_awake(worker_id, False))
        # Only now, after that has committed, the look that decides whether to sleep.
        wake = await self._link.run(claim.next_wake(queues, self._horizon))
        if self._awake:  # somebody has our row locked, and nobody will tell us of a job
            return wake._replace(notified=False)
        self._horizon = wake.horizon
        return wake

    def _note_found(self) -> None:
        now = time.monotonic()
        self._in_a_row = self._in_a_row + 1 if now - self._found_at < GAP_SECONDS else 0
        self._found_at = now

    async def _rise(self, worker_id: UUID) -> None:
        if not self._awake:
            self._awake = True  # before the call: its reply may get lost
            self._horizon = None
            await self._link.run(claim.set_awake(worker_id, True))
