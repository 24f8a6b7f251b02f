"""How many jobs a worker has in hand: those that run and, if jobs are short, some ahead, so that slots need not wait for the
database. Nothing to set: what is claimed ahead is what the worker has lately run in a fiftieth of a second, and what
finds no slot within half a second goes back to the queue, so a long job holds up nobody behind it for longer.

It grows to what was run in a tenth of a second where no long job comes among the short ones: up to a tenth of what has
ended since others were held up. So of what is claimed beyond that fiftieth no more than every tenth job is ever put back.
"""

import time

from inturn.worker.attempt import Attempt

AHEAD_SECONDS = 0.02, 0.1  # at once, and at most
AHEAD_SHARE = 10  # for one job ahead so many must have ended
MOST_AHEAD = 1000
STALE_SECONDS = 0.5


class Prefetch:
    def __init__(self, concurrency: int, most_ahead: int = MOST_AHEAD) -> None:
        self._concurrency = concurrency
        self._most_ahead = most_ahead
        self._ahead = 0
        self._rate = 0.0  # jobs a second, lately
        self._ended = 0  # since others were held up
        self._noted_at = time.monotonic()

    @property
    def capacity(self) -> int:
        return self._concurrency + self._ahead

    def prefers_claim(self, in_hand: int) -> bool:
        """Whether to claim before what has ended is reported: slots would run dry meanwhile."""
        return self._ahead > 0 and in_hand <= self.capacity // 2

    def note(self, ended: int) -> None:
        """So many jobs have ended since the last call."""
        now = time.monotonic()
        rate = ended / max(now - self._noted_at, 0.0005)
        self._noted_at = now
        self._rate += (rate - self._rate) / 4
        self._ended += ended
        least, most = (int(self._rate * seconds) for seconds in AHEAD_SECONDS)
        self._ahead = min(self._most_ahead, most, max(least, self._ended // AHEAD_SHARE))

    def slow_down(self) -> None:
        """A job was longer than those before it."""
        self._rate = 0.0
        self._ended = 0
        self._ahead = 0

    def until_stale(self, attempt: Attempt) -> float:
        """Seconds that an attempt may still wait for a slot."""
        return max(0.0, attempt.claimed_at + STALE_SECONDS - time.monotonic())
