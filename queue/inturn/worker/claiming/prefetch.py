"""How many jobs a worker has in hand: those that run, and some that were claimed ahead.

If jobs are short, slots must not wait for the database. There is no setting: a worker claims ahead
as many jobs as it has recently run in a fiftieth of a second. A job that finds no slot within half
a second goes back to the queue, so a long job delays the jobs behind it no longer than that.

If no long job turns up among the short ones, the worker claims more: as many as it has run in a
tenth of a second, but at most a tenth of the jobs that have ended since a job was last put back. So
at most one in ten of the jobs claimed beyond that fiftieth is ever put back.
"""

import time

LEAST_SECONDS, MOST_SECONDS = 0.02, 0.1  # of work to claim ahead: at once, and at most
ENDED_PER_JOB_AHEAD = 10  # jobs that must have ended for each additional job ahead
MOST_AHEAD = 1000
STALE_SECONDS = 0.5


class Prefetch:
    """The worker's capacity for jobs, which follows how fast they have recently ended."""

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
        """Claim nothing ahead for now: a job took longer than the ones before it."""
        self._rate = 0.0
        self._ended = 0
        self.capacity = self._concurrency

    def until_stale(self, claimed_at: float) -> float:
        """Return how many seconds a job claimed at that time may still wait for a slot."""
        return max(0.0, claimed_at + STALE_SECONDS - time.monotonic())
