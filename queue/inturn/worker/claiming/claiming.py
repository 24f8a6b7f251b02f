"""The one object that decides when a worker claims jobs, how many, and where it continues."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any

import anyio

from inturn.errors import InturnError
from inturn.model import Job
from inturn.operations import Operation
from inturn.operations.engine import claim
from inturn.worker.claiming.prefetch import Prefetch
from inturn.worker.claiming.wakeups import AwakeFlag, Wakeups
from inturn.worker.connection import WorkerConnection
from inturn.worker.observer import Observer
from inturn.worker.options import Options
from inturn.worker.registration import Registration
from inturn.worker.running_jobs import RunningJobs

DUE_SECONDS = 1.0  # a full claim makes scheduled jobs ready, so one is made this often
# Only a full claim sees lanes and higher priorities, so one follows after FRESH_SECONDS. Slow full
# claims get a sixth of the worker's time, but are at most LONGEST seconds apart.
FRESH_SECONDS = 0.05
COST_SHARE = 5
LONGEST = 5.0
# A worker that lacks a task waits longer for a scheduled job, which may be one of that task: idle
# workers that know it are first then. Otherwise it would take the job again and again.
YIELD = timedelta(seconds=0.5)


class Claiming:
    """Claims jobs when the worker has room and there may be jobs.

    The loop asks `is_due`, and then calls `start` or `wait`. It also notes here what else happens.
    A claim has a connection of its own and runs beside the loop, which reports meanwhile.
    """

    def __init__(
        self,
        connection: WorkerConnection,
        registration: Registration,
        options: Options,
        running: RunningJobs,
        wakeups: Wakeups,
        prefetch: Prefetch,
    ) -> None:
        self.is_stopped = False  # the worker takes on no more jobs, neither claimed nor handed over
        self.first_end = asyncio.Event()  # when the first claim has ended, whether it failed or not
        self._connection = connection
        self._registration = registration
        self._options = options
        self._running = running
        self._wakeups = wakeups
        self._prefetch = prefetch
        self._awake_flag = AwakeFlag(connection, registration, options.queues)
        self._cursor = ClaimCursor()
        self._turns = claim.Turns()  # of the groups
        self._claimed_at = time.monotonic()  # when the last full claim began
        self._lacks_slots = False  # a ready job may need a slot at once, and none of ours was free
        self._claim: asyncio.Task[None] | None = None  # until the loop has seen how it ended

    # ------------------------------------------------------------------ what the loop asks

    @property
    def found_nothing(self) -> bool:
        """Return True if the last claim found nothing to start and no job has come since."""
        return self._wakeups.idle

    def is_due(self, *, report_is_due: bool, database_busy: bool) -> bool:
        """Return True if a claim should start now.

        If jobs have ended, their report may bring the next jobs of their lanes. Then a claim starts
        only if slots would run dry, or if scheduled jobs have waited for long. `database_busy`: a
        lock in the database made the last call fail.
        """
        if self.is_stopped or self._claim is not None:
            return False
        in_hand = self._running.in_hand
        wants_jobs = (
            self._wakeups.should_claim
            and in_hand < self._prefetch.capacity
            # While outcomes cannot be stored, they must not pile up.
            and not (database_busy and self._running.unreported)
        )
        if not report_is_due:
            return wants_jobs
        return self._neglects_scheduled or (wants_jobs and self._prefetch.prefers_claim(in_hand))

    @property
    def should_put_back(self) -> bool:
        """Return True if jobs that were claimed ahead should go back for others to run."""
        waiting_since = self._running.waiting_since
        return waiting_since is not None and (
            self.is_stopped or self._prefetch.until_stale(waiting_since) <= 0
        )

    # ------------------------------------------------------------------ claims and waits

    @property
    def is_under_way(self) -> bool:
        """Return True from the start of a claim until the loop has called `take_result`."""
        return self._claim is not None

    @property
    def has_ended(self) -> bool:
        """Return True if a claim has ended and the loop has not called `take_result` yet."""
        return self._claim is not None and self._claim.done()

    def start(self) -> None:
        """Begin to claim as many jobs as there is room for. They start as soon as they come."""
        self._claim = asyncio.create_task(self._choose_claim())
        self._claim.add_done_callback(self._note_end)

    def _note_end(self, _: object) -> None:
        self.first_end.set()
        self._wakeups.interrupt_wait()

    def take_result(self) -> None:
        """Note that the claim has ended. Raise what went wrong with it."""
        assert self._claim is not None
        claim, self._claim = self._claim, None
        claim.result()

    def wait_for_end(self, at_most: float | None) -> Awaitable[None]:
        """Wait until the claim that is under way has ended, or something else has happened."""
        return self._wakeups.wait(at_most, polls=False)

    async def cancel(self) -> None:
        """Cancel the claim if one is under way. The server may still have started its jobs."""
        if self._claim is not None:
            self._claim.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(self._claim, return_exceptions=True)

    def _choose_claim(self) -> Coroutine[Any, Any, None]:
        if self._running.unreported.is_due and self._neglects_scheduled:
            return self._make_scheduled_ready()
        room = self._prefetch.capacity - self._running.in_hand
        if marks := self._cursor.marks():
            return self._claim_further(marks, room)
        return self._claim_from_the_front(room)

    def wait(self, at_most: float | None) -> Awaitable[None]:
        """Wait until there may be something to do, or for `at_most` seconds.

        Call it as soon as you have seen that there is nothing to do, see `Wakeups.wait`.
        """
        waiting_since = self._running.waiting_since
        if waiting_since is not None:
            stale = self._prefetch.until_stale(waiting_since)
            at_most = stale if at_most is None else min(stale, at_most)
        polls = not self.is_stopped and not self.is_under_way
        return self._wakeups.wait(at_most, polls=polls)

    # ------------------------------------------------------------------ what the loop tells

    def stop(self) -> None:
        """Take on no more jobs."""
        self.is_stopped = True

    def note_registered(self) -> None:
        """Note that the worker has a new row."""
        self._awake_flag.reset()

    def expect_jobs(self) -> None:
        """Claim before the next wait: there may be something to claim."""
        self._wakeups.expect_jobs()

    def interrupt_wait(self) -> None:
        """Have the loop look at what there is to do."""
        self._wakeups.interrupt_wait()

    def note_reported(self, count: int, *, lanes_went_back: bool) -> None:
        """Note that the ends of so many jobs are stored.

        A lane that went back to the queue may have a job that only we have room for. A worker that
        does not wait for jobs must also run what its own jobs have deferred before it ends. A job
        with a limit or a group may have waited until we can begin it at once.
        """
        self._prefetch.note_ended(count)
        if lanes_went_back or self._lacks_slots or not self._options.wait:
            self._wakeups.expect_jobs()

    def note_put_back(self) -> None:
        """Note that jobs which were claimed ahead are going back.

        Claim again when a slot is free: the last claim may have found no jobs but these.
        """
        self._prefetch.slow_down()
        self._wakeups.expect_jobs()

    # ------------------------------------------------------------------ the kinds of claims

    @property
    def _neglects_scheduled(self) -> bool:
        """Return True if outcomes kept the worker from a full claim for too long.

        Lanes that hand over one job after the other do so.
        """
        return time.monotonic() - self._claimed_at > DUE_SECONDS

    async def _make_scheduled_ready(self) -> None:
        """Make a claim of no jobs: due jobs become ready, and lanes give way to them."""
        self._claimed_at = time.monotonic()
        none = claim.claim(self._registration.worker_id, self._options.queues, 0, True, 0)
        await self._connection.run(none)

    def _run(self, operation: Operation[list[Job]]) -> Awaitable[list[Job]]:
        if self._running.observer is None:
            return self._connection.run(operation)
        return self._run_observed(operation, self._running.observer)

    async def _run_observed(self, operation: Operation[list[Job]], observer: Observer) -> list[Job]:
        began = time.monotonic()
        try:
            jobs = await self._connection.run(operation)
        except InturnError:
            observer.note_claim(time.monotonic() - began, None)
            raise
        observer.note_claim(time.monotonic() - began, len(jobs))
        return jobs

    async def _claim_further(self, marks: Mapping[tuple[str, int], int], room: int) -> None:
        further = claim.claim_further(self._registration.worker_id, marks, room)
        jobs = await self._run(further)
        self._cursor.advance(jobs, room)
        self._running.start_all(jobs)

    async def _claim_from_the_front(self, room: int) -> None:
        self._wakeups.begin_claim()
        self._lacks_slots = False
        slots = max(0, self._options.concurrency - self._running.in_hand)
        began = self._claimed_at = time.monotonic()
        full_claim = claim.claim(
            self._registration.worker_id,
            self._options.queues,
            room,
            self._wakeups.patient,
            slots,
            self._turns,
        )
        jobs = await self._run(full_claim)
        self._cursor.begin(jobs, room, time.monotonic() - began)
        self._running.start_all(jobs)  # now, so that they do not wait for the calls below
        if len(jobs) == room:
            self._wakeups.note_filled()
            await self._awake_flag.note_filled()
        elif jobs and await self._awake_flag.keep_set():
            self._wakeups.keep_looking()
        else:
            wake = await self._awake_flag.clear()
            self._lacks_slots = slots < room and wake.delay == timedelta(0)
            due = wake.delay + YIELD if wake.delay and self._running.lacks_task else wake.delay
            self._wakeups.note_not_filled(len(jobs), due, notified=wake.notified)


class ClaimCursor:
    """Where the last claim left off: the last job claimed of each queue and priority.

    After a batch of free jobs, claim_further.sql finds more of them without walking over the jobs
    in front. A full claim comes in between often enough that nothing else waits for long.
    """

    def __init__(self) -> None:
        self._marks: dict[tuple[str, int], int] = {}  # the last id of each queue and priority
        self._fresh_until = 0.0

    def marks(self) -> Mapping[tuple[str, int], int] | None:
        """Return where the next claim can continue, or None if it must be a full one."""
        return self._marks if self._marks and time.monotonic() < self._fresh_until else None

    def begin(self, jobs: Sequence[Job], room: int, seconds: float) -> None:
        """Start over after a full claim that returned these jobs and took `seconds`.

        Lanes compete with free jobs by age. Only a full claim sees that, so the cursor is used
        only after a full batch of nothing but free jobs.
        """
        self._marks = {}
        if len(jobs) < room or {job.lock for job in jobs} != {None}:
            return
        self._mark(jobs)
        pause = max(FRESH_SECONDS, min(COST_SHARE * seconds, LONGEST))
        self._fresh_until = time.monotonic() + pause

    def advance(self, jobs: Sequence[Job], room: int) -> None:
        """Move on after a claim that continued here and returned these jobs."""
        if len(jobs) < room:
            self._marks = {}
        else:
            self._mark(jobs)

    def _mark(self, jobs: Sequence[Job]) -> None:
        for job in jobs:  # sorted by priority and id: the last one has the highest id
            self._marks[job.queue, job.priority] = job.id
