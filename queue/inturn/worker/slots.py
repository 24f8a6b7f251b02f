"""Where attempts run: a slot is a coroutine that performs one after the other, so that no task is made for each job.

What was claimed ahead waits here until a slot is free.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from inturn.worker.attempt import Attempt

IN_A_ROW = 16  # jobs that never wait, one after the other, before the rest of the program gets a turn


class Slots:
    def __init__(self, count: int, perform: Callable[[Attempt], Awaitable[None]]) -> None:
        self.waiting: deque[Attempt] = deque()
        self._count = count
        self._perform = perform
        self._started = 0
        self._parked: list[Parking] = []
        self._group: TaskGroup

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work; attempts that still run at its end are waited for."""
        async with anyio.create_task_group() as self._group:
            await work()
            self._group.cancel_scope.cancel()  # nothing runs any more, the slots are parked

    def add(self, attempt: Attempt) -> None:
        if self._parked:
            self._parked.pop().hand(attempt)
        elif self._started < self._count:
            self._started += 1
            self._group.start_soon(self._slot, attempt)
        else:
            self.waiting.append(attempt)

    def start(self, action: Coroutine[Any, Any, None]) -> None:
        """Beside the attempts; waited for at the end, if it is shielded."""
        self._group.start_soon(lambda: action)

    async def _slot(self, attempt: Attempt) -> None:
        in_a_row = 0
        while True:
            await self._perform(attempt)
            in_a_row += 1
            if in_a_row % IN_A_ROW == 0:
                await anyio.lowlevel.checkpoint()
            attempt = self.waiting.popleft() if self.waiting else await self._park()

    async def _park(self) -> Attempt:
        parking = Parking()
        self._parked.append(parking)
        return await parking.leave()


class Parking:
    """Where a slot without an attempt waits for one."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._attempt: Attempt

    def hand(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._event.set()

    async def leave(self) -> Attempt:
        await self._event.wait()
        return self._attempt
