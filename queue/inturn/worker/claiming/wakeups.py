"""When a worker looks for jobs: at once while there may be some, else when it is woken or has slept long enough."""

import time
from datetime import timedelta

import anyio

BUSY_PAUSE = 0.02  # seconds before looking again at a lane that somebody was at work on
PATIENCE = 3  # claims in a row that leave the front to another worker, which may be stuck
REST = 0.005  # seconds between looks while jobs keep coming


class Wakeups:
    def __init__(self, poll: float) -> None:
        self.should_claim = True  # there may be something to claim
        self.idle = False  # the last claim left nothing to start
        self._poll = poll
        self._look_at = 0.0  # at the latest; a moment and no span, so that what ends meanwhile does not put it off
        self._misses = 0  # claims in a row that saw a job they could not take
        self._bell = anyio.Event()

    @property
    def patient(self) -> bool:
        return self._misses < PATIENCE

    def wake(self) -> None:
        """There may be something to claim."""
        self.should_claim = True
        self._bell.set()

    def ring(self) -> None:
        """Something else has happened."""
        self._bell.set()

    def begin(self) -> None:
        """A claim is about to be made. Who rings while it is under way has news that its answer may lack."""
        self.should_claim = False
        self.idle = False

    def was_filled(self) -> None:
        self.should_claim = True
        self._misses = 0

    def found_less(self, count: int, due: timedelta | None, told: bool) -> None:
        """The claim did not fill us; the next job is due then, or (zero) there is one that somebody was just at work on.
        Not told: another one may come without a word."""
        if count:
            self._misses = 0
        self.idle = due is None or due > timedelta(0)
        nap = self._poll if due is None or not due else min(self._poll, due.total_seconds())
        if self.idle and told:
            self._misses = 0
        else:  # look again soon, but do not spin
            nap = min(nap, BUSY_PAUSE * 2**self._misses)
            self._misses = min(self._misses + 1, 20)
        self._look_at = time.monotonic() + nap

    def rest(self) -> None:
        """The claim did not fill us, but jobs keep coming: some more in one look, instead of a word about each."""
        self._look_at = time.monotonic() + REST

    def arm(self) -> None:
        """Before the last look at what there is to do: what happens from here on ends the sleep."""
        self._bell = anyio.Event()

    async def sleep(self, at_most: float | None, *, for_good: bool) -> None:
        """Until the bell rings, or `at_most` so many seconds; `for_good`: no poll ends it."""
        left = max(0.0, self._look_at - time.monotonic())
        limit = at_most if for_good else left if at_most is None else min(left, at_most)
        with anyio.move_on_after(limit):
            await self._bell.wait()
        if not for_good and time.monotonic() >= self._look_at:
            self.should_claim = True
