"""Decides when a worker claims jobs, how many, and where it continues."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any

import anyio

from inturn.errors import DatabaseBusy, InturnError
from inturn.model import Job
from inturn.operations import Operation
from inturn.operations.engine import claim, finish
from inturn.worker.claiming.wakeups import COST_SHARE, LONGEST, AwakeFlag, News
from inturn.worker.connection import WorkerConnection
from inturn.worker.failures import BUSY_PAUSES, Failures
from inturn.worker.floors import Floors
from inturn.worker.state import LoopState

DUE_SECONDS = 1.0  # a full claim makes scheduled jobs ready, so one is made this often (see News)
# Only a full claim sees lanes and higher priorities, so one follows a batch of free jobs after this
# time, or later if full claims are slow.
FRESH_SECONDS = 0.05
# A worker that lacks a task waits longer for a scheduled job, which may need that task, so that
# idle workers that know it come first. Otherwise it would take the job again and again.
YIELD = timedelta(seconds=0.5)
LEAST_SECONDS, MOST_SECONDS = 0.02, 0.1  # of work to claim ahead: at once, and at most
ENDED_PER_JOB_AHEAD = 10  # jobs that must have ended for each additional job ahead
MOST_AHEAD = 1000
MOST_LANES = 512  # that a claim takes (see claim.sql): then there may be more
STALE_SECONDS = 0.5


class Claiming:
    """Claims jobs when the worker has room and there may be jobs.

    The loop asks for the `next_step`, then lets a claim `start_if_due`, and then reports or waits.
    A claim runs beside the loop, over its own connection.
    """

    def __init__(
        self,
        state: LoopState,
        failures: Failures,
        connection: WorkerConnection,
        prefetch: "Prefetch",
    ) -> None:
        self.first_end = asyncio.Event()  # when the first claim has ended, even if it failed
        self._state = state
        self._failures = failures
        self._connection = connection
        self._registration = state.registration
        self._options = state.options
        self._running = state.running
        self._wakeups = state.wakeups
        self._prefetch = prefetch
        self._awake_flag = AwakeFlag(connection, state.registration)
        self._cursor = ClaimCursor()
        self._news = News()
        self._turns = claim.Turns()  # of the groups
        self._floors = Floors(connection)
        self._claimed_at = time.monotonic()  # when the last full claim began
        self._lacks_slots = False  # a ready job may need a slot at once, and we had none free
        self._claim: asyncio.Task[None] | None = None  # until the loop has seen how it ended

    # ------------------------------------------------------------------ what the loop asks

    def next_step(self, remedy: Callable[[], Awaitable[None]] | None) -> Awaitable[None] | None:
        """Return what must happen before anything else, or None.

        That is to take the answer to a claim, to apply the `remedy` for something that went wrong,
        or to put back jobs that were claimed ahead. While a claim is in flight, the last two wait
        for its answer, since the server may already count its jobs as ours.
        """
        if self._claim is not None and self._claim.done():
            return self._take_answer()
        if remedy is None:
            if self._until_stale > 0:
                return None
            remedy = self._put_back
        if self._claim is not None:
            return self._wakeups.wait(self._until_end, polls=False)
        return remedy()

    def start_if_due(self, *, report_is_due: bool) -> None:
        """Start a claim if there is room and there may be jobs, which then start as they arrive.

        If jobs have ended, their report may bring the next jobs of their lanes. In that case a
        claim starts only if slots would run dry, or if scheduled jobs have waited for long.
        """
        if self._state.is_stopped or self._claim is not None:
            return
        in_hand = self._running.in_hand
        is_due = (
            self._wakeups.should_claim
            and in_hand < self._prefetch.capacity
            # While outcomes cannot be stored, they must not pile up.
            and not (self._failures.persist and self._running.unreported)
        )
        if report_is_due and self._neglects_scheduled:
            self._start(self._make_scheduled_ready())
        elif is_due and (not report_is_due or self._prefetch.prefers_claim(in_hand)):
            self._start(self._choose_claim(self._prefetch.capacity - in_hand))

    def wait(self, at_most: float) -> Awaitable[None]:
        """Wait until there may be something to do, or for `at_most` seconds.

        Call it right after you find nothing to do; see `Wakeups.wait`.
        """
        polls = not self._state.is_stopped and self._claim is None
        at_most = min(at_most, self._until_stale, self._until_end)
        return self._wakeups.wait(at_most, polls=polls)

    @property
    def is_under_way(self) -> bool:
        """Return True from the start of a claim until the loop has seen its answer."""
        return self._claim is not None

    async def cancel(self) -> None:
        """Cancel the claim in flight, if any. The server may still have started its jobs."""
        if self._claim is not None:
            self._claim.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(self._claim, return_exceptions=True)

    # ------------------------------------------------------------------ what the loop does for us

    def _start(self, claim: Coroutine[Any, Any, None]) -> None:
        self._claim = asyncio.create_task(claim)
        self._claim.add_done_callback(self._note_end)

    def _note_end(self, _: object) -> None:
        self.first_end.set()
        self._wakeups.interrupt_wait()

    async def _take_answer(self) -> None:
        """Raise what went wrong with the claim, if anything did."""
        assert self._claim is not None
        claim, self._claim = self._claim, None
        claim.result()
        if self._failures.last is not None:
            self._failures.note_answer()

    @property
    def _until_stale(self) -> float:
        """Return how many seconds jobs that were claimed ahead may still wait for a slot."""
        since = self._running.waiting_since
        if since is None:
            return math.inf
        return 0.0 if self._state.is_stopped else self._prefetch.until_stale(since)

    @property
    def _until_end(self) -> float:
        """Return the seconds until an aborted worker ends. After that, only an event wakes it."""
        return (self._state.seconds_left or math.inf) if self._state.aborted else math.inf

    async def _put_back(self) -> None:
        """Let others run the jobs that were claimed ahead and find no slot.

        Claim again when a slot is free: the last claim may have found only these jobs.
        """
        self._prefetch.slow_down()
        self._wakeups.expect_jobs()
        jobs = self._running.take_waiting()
        try:
            busy = await self._state.connection.run(finish.put_back(jobs))
        except DatabaseBusy:
            self._running.start_all(jobs)
            raise
        self._running.start_all([job for job in jobs if job.id in busy])
        if busy:  # an open transaction prevents it
            await anyio.sleep(BUSY_PAUSES[0])

    # ------------------------------------------------------------------ what others tell

    def note_registered(self) -> None:
        """Note that the worker has a new row: claim before the next wait."""
        self._awake_flag.reset()
        self._news = News()
        self._wakeups.expect_jobs()

    def note_reported(self, count: int, *, handed_over: int, lanes_went_back: bool) -> None:
        """Note that the ends of `count` jobs are stored, and other jobs have their slots.

        A lane that went back to the queue may have a job that only we have room for. A worker with
        `wait=False` must run what its own jobs have deferred before it ends. A job with a limit or
        a group may have waited until we can start it at once.
        """
        self._prefetch.note_ended(count)
        can_start = self._lacks_slots and handed_over < count
        if can_start:
            self._news.full_claim_at = 0.0  # that job is not new
        if lanes_went_back or can_start or not self._options.wait:
            self._wakeups.expect_jobs()

    # ------------------------------------------------------------------ the kinds of claims

    def _choose_claim(self, room: int) -> Coroutine[Any, Any, None]:
        if marks := self._cursor.marks():
            return self._claim_further(marks, room)
        slots = max(0, self._options.concurrency - self._running.in_hand)
        if self._news.should_look:
            return self._claim_new(room, slots)
        return self._claim_from_the_front(room, slots)

    @property
    def _neglects_scheduled(self) -> bool:
        """Return True if outcomes kept the worker from a full claim for too long.

        Lanes that hand over one job after another have this effect.
        """
        return time.monotonic() > max(self._claimed_at + DUE_SECONDS, self._news.full_claim_at)

    async def _make_scheduled_ready(self) -> None:
        """Make a claim of no jobs: due jobs become ready, and lanes give way to them."""
        self._claimed_at = time.monotonic()
        mine = self._registration
        await self._connection.run(claim.claim(mine.worker_id, mine.queues, 0, True, 0))

    async def _run(self, operation: Operation[list[Job]]) -> list[Job]:
        observer = self._running.observer
        if observer is None:
            return await self._connection.run(operation)
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

    async def _make_claim(self, room: int, slots: int, since: int | None = None) -> list[Job]:
        mine, floors = self._registration, self._floors
        if floors.are_due:
            await floors.refresh()
        final = floors.final
        again: set[int] = set()  # they may have started without a search
        jobs = await self._run(
            claim.claim(
                mine.worker_id, mine.queues, room, self._wakeups.patient, slots, self._turns, since,
                floors.latest() if final else None, floors.horizon, again,
            )
        )  # fmt: skip
        if any(map(attrgetter("lock"), jobs)):
            floors.note_first((job for job in jobs if job.id not in again), final)
        return jobs

    async def _claim_new(self, room: int, slots: int) -> None:
        self._wakeups.begin_claim()
        began = time.monotonic()
        jobs = await self._make_claim(room, slots, self._news.since)
        seconds = time.monotonic() - began
        self._running.start_all(jobs)
        self._news.note_look(jobs, seconds)
        if len(jobs) == room:
            self._wakeups.note_filled()
            await self._awake_flag.note_filled()
        elif not self._news.until_full_claim:
            self._wakeups.expect_jobs()
        elif (jobs and await self._awake_flag.keep_set()) or self._awake_flag.is_set:
            self._wakeups.keep_looking(seconds)
        else:
            self._wakeups.look_in(self._news.until_full_claim, found=bool(jobs))

    async def _claim_from_the_front(self, room: int, slots: int) -> None:
        self._wakeups.begin_claim()
        self._lacks_slots = False
        began = self._claimed_at = time.monotonic()
        jobs = await self._make_claim(room, slots)
        seconds = time.monotonic() - began
        self._cursor.begin(jobs, room, seconds)
        enough = min(room, slots) if self._turns.need_slots else room
        self._news.note_full_claim(jobs, enough, seconds)
        self._running.start_all(jobs)  # now, so that they do not wait for the calls below
        if len(jobs) >= min(room, MOST_LANES):
            self._wakeups.note_filled()
            await self._awake_flag.note_filled()
        elif jobs and await self._awake_flag.keep_set():
            self._lacks_slots = slots <= len(jobs)  # more may wait for theirs
            self._wakeups.keep_looking(seconds)
        else:
            wake = await self._awake_flag.clear()
            self._lacks_slots = slots < room and wake.delay == timedelta(0)
            if self._lacks_slots:
                self._prefetch.slow_down()
            due = wake.delay + YIELD if wake.delay and self._running.lacks_task else wake.delay
            self._wakeups.note_not_filled(len(jobs), due, notified=wake.notified)
            self._news.note_last_id(wake.newest)


class ClaimCursor:
    """Where the last claim left off: the last job claimed of each queue and priority.

    After a batch of free jobs, claim_further.sql finds more of them without scanning the jobs in
    front. Full claims are frequent enough that nothing else waits for long.
    """

    def __init__(self) -> None:
        self._marks: dict[tuple[str, int], int] = {}  # the last id of each queue and priority
        self._fresh_until = 0.0

    def marks(self) -> Mapping[tuple[str, int], int] | None:
        """Return where the next claim can continue, or None if it must be a full one."""
        return self._marks if self._marks and time.monotonic() < self._fresh_until else None

    def begin(self, jobs: Sequence[Job], room: int, seconds: float) -> None:
        """Start over after a full claim that returned these jobs and took `seconds`.

        Lanes compete with free jobs by age, which only a full claim sees. The cursor is therefore
        used only after a full batch of free jobs.
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


class Prefetch:
    """How many jobs a worker has in hand: those that run, and some that were claimed ahead.

    If jobs are short, slots must not wait for the database. There is no setting: a worker claims
    ahead as many jobs as it has recently run in a fiftieth of a second. A job that finds no slot
    within half a second goes back to the queue, so a long job delays the jobs behind it no longer
    than that.

    If no long job turns up among the short ones, the worker claims more: as many as it has run in a
    tenth of a second, but at most a tenth of the jobs that have ended since a job was last put
    back. So at most one in ten of the jobs claimed beyond that fiftieth is ever put back.
    """

    def __init__(self, concurrency: int, most_ahead: int = MOST_AHEAD) -> None:
        self._concurrency = concurrency
        self._most_ahead = most_ahead
        self.capacity = concurrency  # how many jobs the worker may have in hand
        self._rate = 0.0  # jobs per second, recently
        self._ended = 0  # since a job was last put back
        self._noted_at = time.monotonic()

    def prefers_claim(self, in_hand: int) -> bool:
        """Return True if slots would run dry during a report, so that a claim should come first."""
        return self._concurrency < self.capacity and in_hand <= self.capacity // 2

    def note_ended(self, count: int) -> None:
        """Note how many jobs have ended since the last call."""
        now = time.monotonic()
        rate = count / max(now - self._noted_at, 0.0005)
        self._noted_at = now
        self._rate += (rate - self._rate) / 4
        self._ended += count
        least, most = int(self._rate * LEAST_SECONDS), int(self._rate * MOST_SECONDS)
        earned = self._ended // ENDED_PER_JOB_AHEAD
        ahead = min(self._most_ahead, most, max(least, earned))
        self.capacity = self._concurrency + ahead

    def slow_down(self) -> None:
        """Claim nothing ahead for now: a job takes long, or must begin at once and lacks a slot."""
        self._rate = 0.0
        self._ended = 0
        self.capacity = self._concurrency

    def until_stale(self, claimed_at: float) -> float:
        """Return how many seconds a job claimed at that time may still wait for a slot."""
        return max(0.0, claimed_at + STALE_SECONDS - time.monotonic())
