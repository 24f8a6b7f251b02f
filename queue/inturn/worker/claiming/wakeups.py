"""When a worker looks for jobs, how long it waits in between, and what must wake it.

While its claims find jobs, producers need not notify the worker. It sets a flag in its row of
`workers`, and clears it before it may sleep.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter

from inturn.model import Job
from inturn.operations.engine import claim
from inturn.worker.connection import WorkerConnection
from inturn.worker.registration import Registration

BUSY_PAUSE = 0.02  # seconds before another look at a lane that was locked
PATIENCE = 3  # consecutive claims that wait for another worker at the front, which may be stuck
KEEP_LOOKING = 0.005  # seconds at most between looks while jobs keep coming
# The flag costs two statements. They pay off once all claims for this many seconds were filled,
BUSY_SECONDS = 0.25
# or once this many consecutive claims found jobs, each within GAP_SECONDS of the last.
IN_A_ROW = 20
GAP_SECONDS = 0.01
# Slow full claims get a tenth of the worker's time, but are at most LONGEST seconds apart.
COST_SHARE = 9
LONGEST = 5.0
SLOW = 2  # times as long as a look at new jobs
LAG = 0.25  # seconds by which transactions may commit in another order than that of their ids
# Between two looks that only measure how long a look takes. Until one has, they come sooner.
TRIAL_SECONDS = 10.0
FIRST_TRIAL_SECONDS = 1.0
EMPTY_LOOKS = 4  # in a row, after which a full claim follows
SOURCES = ("notify", "poll", "local")


class Wakeups:
    """Tells the worker to claim at once while there may be jobs, and otherwise wakes it later.

    An event can wake it earlier, and it looks after `poll` seconds at the latest.
    """

    def __init__(self, poll: float) -> None:
        self.should_claim = True  # there may be something to claim
        self._idle = False  # the last claim left nothing to start
        self._poll = poll
        # A point in time, not a duration, so that jobs that end do not postpone the look.
        self._look_at = 0.0
        self._notified = True  # as far as we know, all producers notify us
        self._misses = 0  # claims in a row that saw a job they could not take
        self._missed_at = 0.0  # the first of them
        self._woken = asyncio.Event()
        self.counted = dict.fromkeys(SOURCES, 0)  # what made it look for jobs, and how often

    @property
    def idle(self) -> bool:
        """Return True if the last claim found nothing to start and no job has come since."""
        return self._idle and not self.should_claim

    @property
    def patient(self) -> bool:
        """Return True if a claim should wait for another worker at the front."""
        return self._misses < PATIENCE

    def expect_jobs(self) -> None:
        """Claim before the next wait: there may be something to claim."""
        self.should_claim = True

    def wake(self, source: str = "local") -> None:
        """Wake the worker because there may be something to claim."""
        self.counted[source] += 1
        self.should_claim = True
        self._woken.set()

    def interrupt_wait(self) -> None:
        """Wake the worker because something else has happened."""
        self._woken.set()

    def begin_claim(self) -> None:
        """Note that a claim begins. If `wake` is called during it, the answer may lack that job."""
        self.should_claim = False
        self._idle = False

    def note_filled(self) -> None:
        """Note that the claim returned as many jobs as it asked for: claim again."""
        self.should_claim = True
        self._misses = 0

    def note_not_filled(self, count: int, due: timedelta | None, *, notified: bool) -> None:
        """Note that the claim returned fewer jobs than it asked for.

        `due` is the time until the next scheduled job. Zero means that a ready job was skipped
        because its lane was locked. If `notified` is False, jobs may be committed without a
        notification.
        """
        now = time.monotonic()
        self._notified = notified
        if count:
            self._misses = 0
        self._idle = due is None or due > timedelta(0)
        pause = self._poll if not due else min(self._poll, due.total_seconds())
        if self._idle and notified:
            self._misses = 0
        else:  # look again soon, but do not spin; other events may bring many looks in between
            if not self._misses:
                self._missed_at = now
            pause = min(pause, max(BUSY_PAUSE, now - self._missed_at))
            self._misses += 1
        self._look_at = now + pause

    def keep_looking(self, seconds: float) -> None:
        """Note that the claim took so many seconds and was not filled, but jobs keep coming.

        The next look comes after as long a rest, at most KEEP_LOOKING, and finds several, which is
        cheaper than a notification for each.
        """
        self._look_at = time.monotonic() + min(seconds, KEEP_LOOKING)

    def look_in(self, seconds: float, *, found: bool) -> None:
        """Note that the worker has looked at new jobs, and a full claim is due in `seconds`.

        Look earlier if the look found nothing, or jobs may be committed without a notification.
        """
        pause = min(seconds, self._poll if found and self._notified else BUSY_PAUSE)
        self._look_at = time.monotonic() + pause

    async def wait(self, at_most: float, *, polls: bool) -> None:
        """Wait until the worker is woken, or for `at_most` seconds.

        If `polls` is True, also end when it is time to look for jobs. The worker must not await
        anything between its last check and this call, which discards earlier wake-ups.
        """
        self._woken.clear()
        polls = polls and not self.should_claim  # if it should and did not, waiting makes no room
        until_look = max(0.0, self._look_at - time.monotonic()) if polls else math.inf
        limit = min(until_look, at_most)
        if limit == math.inf:
            await self._woken.wait()
        else:
            timer = asyncio.get_running_loop().call_later(limit, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()
        if polls and time.monotonic() >= self._look_at:
            self.counted["poll"] += 1
            self.should_claim = True


class News:
    """Lets a worker look only at new jobs while full claims are slow.

    An open snapshot keeps the index entries of all jobs that have run since it was taken, and a
    full claim walks over them. If that takes SLOW times as long as a look at the jobs with the
    highest ids, full claims get a tenth of the worker's time, and it looks at new jobs in between.

    Such a look misses what is not new: what becomes due or is given back, what a limit held back,
    and jobs whose transaction took longer than LAG to commit. They wait for a full claim. One also
    follows some looks in a row that find nothing: what woke the worker may not be new. While full
    claims leave jobs, the worker makes no looks, since new jobs must not go first.
    """

    def __init__(self) -> None:
        self.full_claim_at = 0.0  # when the next one is due
        self._left_nothing = False
        self._empty_looks = 0  # in a row
        # How long the last full claim and a look took, for each job and one more.
        self._full_seconds, self._look_seconds = 0.0, math.inf
        self._has_plans = False  # for a look that finds jobs
        self._look_due = time.monotonic() + FIRST_TRIAL_SECONDS  # when to measure a look
        # The highest id: now, when it last moved on, and the time before that.
        self._newest = self._newer = self._since = 0
        self._moved_at = 0.0

    @property
    def until_full_claim(self) -> float:
        """Return the seconds until a full claim is due."""
        return max(0.0, self.full_claim_at - time.monotonic())

    @property
    def should_look(self) -> bool:
        """Return True if the next claim should look only at new jobs.

        It does so now and then even if it need not, to measure how long that takes.
        """
        now = time.monotonic()
        is_due = now < self.full_claim_at or self._look_due < now
        return is_due and self._left_nothing and self._newer > 0

    @property
    def since(self) -> int:
        """Return an id that was the highest at least LAG seconds ago."""
        return self._newer if time.monotonic() - self._moved_at > LAG else self._since

    def note_look(self, jobs: Sequence[Job], seconds: float) -> None:
        """Note that a look at new jobs returned these, and took so many seconds."""
        if jobs:
            self._empty_looks = 0
            if self._has_plans:
                each = seconds / (1 + len(jobs))
                self._look_seconds = min(each, 1.1 * self._look_seconds)
            self._has_plans = True  # the first pays for them
            self._note_ids(max(map(attrgetter("id"), jobs)))
        else:
            self._empty_looks += 1
            if self._empty_looks >= EMPTY_LOOKS:
                self.full_claim_at = 0.0
        is_measured = self._look_seconds < math.inf
        self._look_due = time.monotonic() + (TRIAL_SECONDS if is_measured else FIRST_TRIAL_SECONDS)

    def note_full_claim(self, jobs: Sequence[Job], room: int, seconds: float) -> None:
        """Note that a full claim for `room` jobs returned these, and took so many seconds."""
        self._left_nothing = len(jobs) < room
        self._empty_looks = 0
        each = seconds / (1 + len(jobs)) if self._left_nothing else 0.0
        is_slow = min(each, self._full_seconds) > SLOW * self._look_seconds
        self._full_seconds = each
        pause = min(COST_SHARE * seconds, LONGEST) if is_slow else 0.0
        self.full_claim_at = time.monotonic() + pause
        if jobs:
            self._note_ids(max(map(attrgetter("id"), jobs)))

    def note_last_id(self, id: int) -> None:
        """Note that this is the highest id. It is lower than before only after a failover."""
        if id < self._newest:
            self._newest = self._newer = self._since = 0
        self._note_ids(id)

    def _note_ids(self, highest: int) -> None:
        self._newest = max(self._newest, highest)
        if time.monotonic() - self._moved_at > LAG:
            self._since, self._newer = self._newer, self._newest
            self._moved_at = time.monotonic()


@dataclass(eq=False)
class AwakeFlag:
    """The flag `awake` in the worker's row. Call one method after each claim."""

    _connection: WorkerConnection
    _registration: Registration
    is_set: bool = False  # our row says it, or may say it: producers need not notify us
    _horizon: str | None = None  # see next_wake.sql
    _idle_at: float = field(default_factory=time.monotonic)  # when a claim was last not filled
    _found_at: float = 0.0  # when a claim last found something
    _in_a_row: int = 0

    def reset(self) -> None:
        """Start again with a new row. Producers that do not see it yet do not notify us."""
        self.is_set = False
        self._horizon = None

    async def note_filled(self) -> None:
        """Note that a claim returned as many jobs as it asked for."""
        now = time.monotonic()
        self._note_found(now)
        if now - self._idle_at > BUSY_SECONDS:
            await self._set()

    async def keep_set(self) -> bool:
        """Note that a claim found some jobs, but fewer than it asked for.

        Return True if the flag is set, so the worker must look for more by itself.
        """
        self._idle_at = now = time.monotonic()
        self._note_found(now)
        if self._in_a_row >= IN_A_ROW:
            await self._set()
        return self.is_set

    async def clear(self) -> claim.Wake:
        """Clear the flag, since the worker may sleep now. Return when it must wake up."""
        self._idle_at = time.monotonic()
        if self.is_set:
            lower = claim.set_awake(self._registration.worker_id, False)
            self.is_set = not await self._connection.run(lower)
        # This look decides whether to sleep, so it must come after the flag is committed.
        wake = await self._connection.run(claim.next_wake(self._registration.queues, self._horizon))
        if self.is_set:  # our row was locked, so no producer will notify us
            return wake._replace(notified=False)
        self._horizon = wake.horizon
        return wake

    def _note_found(self, now: float) -> None:
        self._in_a_row = self._in_a_row + 1 if now - self._found_at < GAP_SECONDS else 0
        self._found_at = now

    async def _set(self) -> None:
        if not self.is_set:
            self.is_set = True  # before the call: its reply may get lost
            self._horizon = None
            await self._connection.run(claim.set_awake(self._registration.worker_id, True))
