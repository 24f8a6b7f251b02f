"""Where jobs run. A slot is an asyncio task that runs one job after another.

This saves a task per job. Jobs that were claimed ahead wait here until a slot is free.
"""

import asyncio
import math
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup

from inturn.errors import WorkerCancelled
from inturn.logs import running_job
from inturn.model import Job

# The loop must get its turn while many jobs are left, which then run while it waits for the server.
# A few run in one turn, so that one call reports them and their lanes hand over all next jobs.
# Between two turns, all slots together run as many jobs as there are slots, or one in TURNS of the
# waiting ones if that is more, but at most MOST_IN_A_TURN. Each slot that is woken runs one.
TURNS, MOST_IN_A_TURN = 2, 256


class Slot(NamedTuple):
    """Where attempts run: the scope that cancels one, the scope inside it that shields its code,
    and their asyncio task. After a cancellation, no other attempt runs here.
    """

    scope: anyio.CancelScope
    shield: anyio.CancelScope
    task: asyncio.Task[Any]


class Waiting(NamedTuple):
    """A job that waits for a slot, and when it was claimed, by the monotonic clock."""

    job: Job
    since: float


class Slots:
    """At most `count` slots, started on demand.

    A job stays in `waiting` until `perform` has it, so it is always accounted for.
    """

    def __init__(self, count: int, perform: Callable[[Waiting, Slot], Awaitable[None]]) -> None:
        self.waiting: deque[Waiting] = deque()
        self._count = count
        self._perform = perform
        # Called before each start. If it returns False, `ask` is called and jobs wait for `add`.
        self.are_ours: Callable[[], bool] = lambda: True
        self.ask: Callable[[], None] = lambda: None
        self._started = 0
        self._parked: list[asyncio.Future[None]] = []  # each is an idle slot
        self._turning = 0  # slots that take a job at their next step
        self._has_scout = False  # one slot opens others instead of running jobs
        self._ran = 0  # jobs since the event loop had its turn
        self._group: TaskGroup
        self._context: Context  # in which each slot begins

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work, then wait for the attempts that are still running."""
        self._context = copy_context()
        self._context.run(running_job.set, None)
        is_done = False
        async with anyio.create_task_group() as self._group:
            await work()
            is_done = True
            self._group.cancel_scope.cancel()  # nothing runs any more; the slots are parked
        if not is_done:
            raise WorkerCancelled(
                "Something other than the worker cancelled its asyncio tasks before its work was "
                "done"
            )

    def add(self, jobs: Iterable[Waiting] = ()) -> None:
        """Run these jobs, and those that `are_ours` held up, as soon as slots are free."""
        self.waiting.extend(jobs)
        if not self._turning:
            self._open_slots(min(len(self.waiting), 2))  # a scout, and one that runs jobs

    def put_back(self, job: Waiting) -> None:
        """Return a job that could not begin to the front of the waiting jobs."""
        self.waiting.appendleft(job)

    def _open_slots(self, count: int) -> bool:
        """Let this many more slots take waiting jobs. Return False if fewer are free."""
        while count and self._parked:
            parked = self._parked.pop()
            if not parked.done():  # it is done if something other than the worker cancels the slot
                parked.set_result(None)
                count -= 1
        while count and self._started < self._count:
            self._started += 1
            self._context.run(self._group.start_soon, self._slot)
            count -= 1
        return count == 0

    def take_waiting(self) -> list[Waiting]:
        """Return the jobs that wait for a slot and forget them."""
        jobs = list(self.waiting)
        self.waiting.clear()
        return jobs

    def start(self, action: Coroutine[Any, Any, None]) -> None:
        """Run an action beside the attempts. If it is shielded, `run` waits for it."""
        self._group.start_soon(lambda: action)

    async def _slot(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        with anyio.CancelScope() as scope, anyio.CancelScope() as shield:
            await self._run_jobs(Slot(scope, shield, me))

    async def _run_jobs(self, slot: Slot) -> None:
        me, scope = slot.task, slot.scope
        references = sys.getrefcount(me)
        self._turning += 1
        while True:
            can_scout = not self._has_scout and (self._parked or self._started < self._count)
            if can_scout and len(self.waiting) > 1 and not await self._scout():
                break
            if not self.waiting or not self.are_ours():
                if self.waiting:
                    self.ask()
                if not await self._park():
                    break
                continue  # unless another slot was faster
            self._turning -= 1
            await self._perform(self.waiting.popleft(), slot)
            self._turning += 1
            # Code that still refers to this task may cancel it later, for example with a timer that
            # the job left behind. The next job would also see the context variables that this one
            # has set. In either case, another task must run it.
            if sys.getrefcount(me) > references or me.cancelling() or scope.cancel_called:
                break
            running_job.set(None)
            try:
                if copy_context() != self._context:
                    break
            except Exception:  # the values are the users', and so is their __eq__
                break
            if (not self.waiting or self._is_turn_over()) and not await _give_way():
                break
        self._turning -= 1
        await self._retire()

    def _is_turn_over(self) -> bool:
        """Count a job that ran. Return True if the event loop should have its turn now."""
        if not self._ran:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._ran += 1
        share = max(self._count, len(self.waiting) // TURNS)
        return self._ran >= min(share, MOST_IN_A_TURN)

    def _begin_turn(self) -> None:
        self._ran = 0

    async def _scout(self) -> bool:
        """Open more slots whenever all that are open wait in their jobs.

        A few slots can run many short jobs, which costs less than opening a slot for each job.
        Return False if something other than the worker cancels the slot.
        """
        self._has_scout = True
        self._turning -= 1
        try:
            while await _give_way():
                if len(self.waiting) < 2 or not self.are_ours():
                    return True
                if not self._turning and not self._open_slots(len(self.waiting)):
                    return True
            return False
        finally:
            self._turning += 1
            self._has_scout = False

    async def _retire(self) -> None:
        """Let another task replace this one."""
        if not is_cancelled():
            # A pending cancellation must end here, or it would end the worker.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        self._started -= 1
        if self.waiting:
            self._open_slots(1)

    async def _park(self) -> bool:
        """Wait for a job. Return False if something other than the worker cancels the slot."""
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked.append(parked)
        self._turning -= 1
        try:
            await parked
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            if parked in self._parked:
                self._parked.remove(parked)
            return False
        finally:
            self._turning += 1
        return True


async def _give_way() -> bool:
    """Let others have a turn. Return False if something other than the worker cancels the slot."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        return False
    return True


def close_scopes(scope: anyio.CancelScope, task: asyncio.Task[Any]) -> bool:
    """Close the scopes that a job left open in this one. Return True if there were any.

    They could cancel the next job, and the slot could not end.
    """
    # anyio has no public API for this; a test fails if it renames the attributes. Scopes of other
    # tasks belong to a task group's children, which end with the group.
    left_open = [
        child
        for child in scope._child_scopes  # type: ignore[attr-defined]
        if child._host_task is task
    ]
    for child in left_open:
        child.cancel()  # nothing waits for the tasks of a task group any more
        close_scopes(child, task)
        child.__exit__(None, None, None)
    return bool(left_open)


def is_cancelled() -> bool:
    """Return True if the worker is cancelling the code around this call.

    Otherwise a cancellation comes from elsewhere.
    """
    return anyio.current_effective_deadline() == -math.inf
