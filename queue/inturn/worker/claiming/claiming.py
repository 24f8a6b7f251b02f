"""The one object that decides when a worker claims jobs, and how many."""

import time

from inturn.operations import claim
from inturn.worker.claiming.awake_flag import AwakeFlag
from inturn.worker.claiming.claim_cursor import ClaimCursor
from inturn.worker.claiming.prefetch import Prefetch
from inturn.worker.claiming.wakeups import Wakeups
from inturn.worker.connection import WorkerConnection
from inturn.worker.options import Options
from inturn.worker.registration import Registration
from inturn.worker.running_jobs import RunningJobs

DUE_SECONDS = 1.0  # a full claim makes scheduled jobs ready, so one is made this often


class Claiming:
    """Claims jobs when the worker has room and there may be jobs.

    The loop asks `is_due`, and then calls `claim` or `wait`. It also notes here what else happens.
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
        self._connection = connection
        self._registration = registration
        self._options = options
        self._running = running
        self._wakeups = wakeups
        self._prefetch = prefetch
        self._awake_flag = AwakeFlag(connection, registration, options.queues)
        self._cursor = ClaimCursor()
        self._is_stopped = False
        self._claimed_at = time.monotonic()  # when the last full claim began

    # ------------------------------------------------------------------ what the loop asks

    @property
    def is_stopped(self) -> bool:
        """Return True if the worker takes on no more jobs, neither claimed nor handed over."""
        return self._is_stopped

    @property
    def found_nothing(self) -> bool:
        """Return True if the last claim found nothing to start and no job has come since."""
        return self._wakeups.idle

    def is_due(self, *, database_busy: bool) -> bool:
        """Return True if the next call to the server should be a claim.

        Reports come first, unless slots would run dry meanwhile or scheduled jobs have waited for
        long. `database_busy`: a lock in the database made the last call fail.
        """
        if self._is_stopped:
            return False
        wants_jobs = (
            self._wakeups.should_claim
            and len(self._running) < self._prefetch.capacity
            # While outcomes cannot be stored, they must not pile up.
            and not (database_busy and self._running.unreported)
        )
        if not self._running.unreported.is_due:
            return wants_jobs
        return self._neglects_scheduled or (
            wants_jobs and self._prefetch.prefers_claim(len(self._running))
        )

    @property
    def should_put_back(self) -> bool:
        """Return True if jobs that were claimed ahead should go back for others to run."""
        waiting_since = self._running.waiting_since
        return waiting_since is not None and (
            self._is_stopped or self._prefetch.until_stale(waiting_since) <= 0
        )

    # ------------------------------------------------------------------ claims and waits

    async def claim(self) -> None:
        """Claim as many jobs as there is room for, and start them."""
        room = self._prefetch.capacity - len(self._running)
        if self._neglects_scheduled:
            await self._make_scheduled_ready()
        elif marks := self._cursor.marks():
            further = claim.claim_further(self._registration.worker_id, marks, room)
            jobs = await self._connection.run(further)
            self._cursor.advance(jobs, room)
            self._running.start_all(jobs)
        else:
            await self._claim_from_the_front(room)

    async def wait(self, at_most: float | None) -> None:
        """Wait until there may be something to do, or for `at_most` seconds."""
        waiting_since = self._running.waiting_since
        if waiting_since is not None:
            stale = self._prefetch.until_stale(waiting_since)
            at_most = stale if at_most is None else min(stale, at_most)
        await self._wakeups.wait(at_most, polls=not self._is_stopped)

    def arm(self) -> None:
        """Prepare to wait. Call it before the last check: what happens after it ends the wait."""
        self._wakeups.arm()

    # ------------------------------------------------------------------ what the loop tells

    def stop(self) -> None:
        """Take on no more jobs."""
        self._is_stopped = True

    def note_registered(self) -> None:
        """Note that the worker has a new row."""
        self._awake_flag.reset()

    def expect_jobs(self) -> None:
        """Claim before the next wait: there may be something to claim."""
        self._wakeups.expect_jobs()

    def interrupt_wait(self) -> None:
        """Have the loop look at what there is to do."""
        self._wakeups.ring()

    def note_reported(self, count: int, *, lanes_went_back: bool) -> None:
        """Note that the ends of so many jobs are stored.

        A lane that went back to the queue may have a job that only we have room for. A worker that
        does not wait for jobs must also run what its own jobs have deferred before it ends.
        """
        self._prefetch.note_ended(count)
        if lanes_went_back or not self._options.wait:
            self._wakeups.expect_jobs()

    def note_put_back(self) -> None:
        """Note that jobs which were claimed ahead are going back.

        Claim again when a slot is free: the last claim may have found no jobs but these.
        """
        self._prefetch.slow_down()
        self._wakeups.expect_jobs()

    # ------------------------------------------------------------------ the full claim

    @property
    def _neglects_scheduled(self) -> bool:
        """Return True if lanes keep handing us jobs, so that we never make a full claim."""
        return self._running.unreported.is_due and time.monotonic() - self._claimed_at > DUE_SECONDS

    async def _make_scheduled_ready(self) -> None:
        """Make a claim of no jobs: due jobs become ready, and lanes give way to them."""
        self._claimed_at = time.monotonic()
        none = claim.claim(self._registration.worker_id, self._options.queues, 0, True)
        await self._connection.run(none)

    async def _claim_from_the_front(self, room: int) -> None:
        self._wakeups.begin_claim()
        began = self._claimed_at = time.monotonic()
        full_claim = claim.claim(
            self._registration.worker_id, self._options.queues, room, self._wakeups.patient
        )
        jobs = await self._connection.run(full_claim)
        self._cursor.begin(jobs, room, time.monotonic() - began)
        self._running.start_all(jobs)  # now, so that they do not wait for the calls below
        if len(jobs) == room:
            self._wakeups.note_filled()
            await self._awake_flag.note_filled()
        elif jobs and await self._awake_flag.found_some():
            self._wakeups.keep_looking()
        else:
            wake = await self._awake_flag.found_less()
            self._wakeups.found_less(len(jobs), wake.delay, notified=wake.notified)
