"""Where attempts run. A slot is a task that runs one attempt after the other.

So no task is made for each job. Attempts that were claimed ahead wait here until a slot is free.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup

from inturn.errors import WorkerCancelled
from inturn.worker.attempt import Attempt, Slot, is_cancelled

# The loop must get its turn while jobs are left to run, so that they run while it waits for the
# server. So all slots together run at most this part of the waiting jobs between two turns, and
# one slot at most this many.
TURNS, MOST_IN_A_ROW = 4, 16


class Slots:
    """At most `count` slots, which are started when they are needed."""

    def __init__(self, count: int, perform: Callable[[Attempt], Awaitable[None]]) -> None:
        self.waiting: deque[Attempt] = deque()
        self._count = count
        self._perform = perform
        self._started = 0
        self._parked: list[asyncio.Future[Attempt]] = []  # each is a slot without an attempt
        self._group: TaskGroup

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work, and then wait for the attempts that still run."""
        is_done = False
        async with anyio.create_task_group() as self._group:
            await work()
            is_done = True
            self._group.cancel_scope.cancel()  # nothing runs any more, the slots are parked
        if not is_done:
            raise WorkerCancelled(
                "The worker's own tasks were cancelled, and not by the worker: its work is not done"
            )

    def add(self, attempt: Attempt) -> None:
        """Run an attempt in a free slot, or let it wait for one."""
        while self._parked:
            parked = self._parked.pop()
            if not parked.done():  # or something other than the worker cancels the slot
                parked.set_result(attempt)
                return
        if self._started < self._count:
            self._started += 1
            self._group.start_soon(self._slot, attempt)
        else:
            self.waiting.append(attempt)

    def take_waiting(self) -> list[Attempt]:
        """Return the attempts that wait for a slot and forget them."""
        attempts = list(self.waiting)
        self.waiting.clear()
        return attempts

    def start(self, action: Coroutine[Any, Any, None]) -> None:
        """Run an action beside the attempts. The end waits for it if it is shielded."""
        self._group.start_soon(lambda: action)

    async def _slot(self, attempt: Attempt) -> None:
        me = asyncio.current_task()
        assert me is not None
        with anyio.CancelScope() as scope:
            await self._run_attempts(attempt, Slot(scope, me))

    async def _run_attempts(self, attempt: Attempt, slot: Slot) -> None:
        me, scope = slot.task, slot.scope
        references = sys.getrefcount(me)
        in_a_row = 0
        while True:
            attempt.slot = slot
            await self._perform(attempt)
            # Code that still refers to this task may cancel it later, for example with a timer that
            # the job has left behind. Then this task must not run another job.
            if sys.getrefcount(me) > references or me.cancelling() or scope.cancel_called:
                break
            in_a_row += 1
            if in_a_row > min(len(self.waiting) // (TURNS * self._count), MOST_IN_A_ROW):
                in_a_row = 0
                await asyncio.sleep(0)
            following = self.waiting.popleft() if self.waiting else await self._park()
            if following is None:
                break
            attempt = following
        await self._retire()

    async def _retire(self) -> None:
        """Let another task take the place of this one."""
        if not is_cancelled():
            # A cancellation that is under way must end here, or it would end the worker.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        self._started -= 1
        if self.waiting:
            self.add(self.waiting.popleft())

    async def _park(self) -> Attempt | None:
        """Wait for an attempt. Return None if something other than the worker cancels the slot."""
        parked: asyncio.Future[Attempt] = asyncio.get_running_loop().create_future()
        self._parked.append(parked)
        try:
            return await parked
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            if parked in self._parked:
                self._parked.remove(parked)
            return None if parked.cancelled() else parked.result()
