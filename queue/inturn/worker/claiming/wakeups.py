"""When a worker looks for jobs, and how long it waits in between."""

import time
from datetime import timedelta

import anyio

BUSY_PAUSE = 0.02  # seconds before another look at a lane that was locked
PATIENCE = 3  # claims in a row that wait for another worker at the front, which may be stuck
KEEP_LOOKING = 0.005  # seconds between looks while jobs keep coming


class Wakeups:
    """Tells the worker to claim at once while there may be jobs, and otherwise wakes it later.

    An event can wake it earlier, and it looks after `poll` seconds at the latest.
    """

    def __init__(self, poll: float) -> None:
        self.should_claim = True  # there may be something to claim
        self._idle = False  # the last claim left nothing to start
        self._poll = poll
        # A point in time instead of a duration, so that jobs which end do not put the look off.
        self._look_at = 0.0
        self._misses = 0  # claims in a row that saw a job they could not take
        self._bell = anyio.Event()

    @property
    def idle(self) -> bool:
        """Return True if the last claim found nothing to start and no job has come since."""
        return self._idle and not self.should_claim

    @property
    def patient(self) -> bool:
        """Return True if a claim should wait for another worker that is at the front."""
        return self._misses < PATIENCE

    def expect_jobs(self) -> None:
        """Claim before the next wait: there may be something to claim."""
        self.should_claim = True

    def wake(self) -> None:
        """Wake the worker because there may be something to claim."""
        self.should_claim = True
        self._bell.set()

    def ring(self) -> None:
        """Wake the worker because something else has happened."""
        self._bell.set()

    def begin_claim(self) -> None:
        """Note that a claim begins. If `wake` is called meanwhile, the answer may lack that job."""
        self.should_claim = False
        self._idle = False

    def note_filled(self) -> None:
        """Note that the claim returned as many jobs as it asked for: claim again."""
        self.should_claim = True
        self._misses = 0

    def found_less(self, count: int, due: timedelta | None, *, notified: bool) -> None:
        """Note that the claim returned fewer jobs than it asked for.

        `due` is the time until the next scheduled job. Zero means that a ready job was skipped
        because its lane was locked. If `notified` is False, a job may be committed without a
        notification.
        """
        if count:
            self._misses = 0
        self._idle = due is None or due > timedelta(0)
        pause = self._poll if not due else min(self._poll, due.total_seconds())
        if self._idle and notified:
            self._misses = 0
        else:  # look again soon, but do not spin
            pause = min(pause, BUSY_PAUSE * 2**self._misses)
            self._misses = min(self._misses + 1, 20)
        self._look_at = time.monotonic() + pause

    def keep_looking(self) -> None:
        """Note that the claim was not filled but jobs keep coming.

        The next look comes soon and finds several of them. That is cheaper than a notification of
        each.
        """
        self._look_at = time.monotonic() + KEEP_LOOKING

    def arm(self) -> None:
        """Prepare to wait. Call it before the last check: what happens after it ends the wait."""
        self._bell = anyio.Event()

    async def wait(self, at_most: float | None, *, polls: bool) -> None:
        """Wait until the worker is woken, or for `at_most` seconds.

        If `polls` is True, also end when it is time to look for jobs.
        """
        left = max(0.0, self._look_at - time.monotonic())
        limit = at_most if not polls else left if at_most is None else min(left, at_most)
        with anyio.move_on_after(limit):
            await self._bell.wait()
        if polls and time.monotonic() >= self._look_at:
            self.should_claim = True
