"""How long a waiter sleeps between two tries if no message announces that the lock is free."""

import random
from collections.abc import Iterator

SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.05  # seconds


def grow_pauses(longest: float) -> Iterator[float]:
    """Yield pauses that double up to `longest`. Jitter spreads waiters that began together."""
    pause = SHORTEST_PAUSE
    while True:
        yield pause * random.uniform(0.5, 1)  # noqa: S311 (spreads waiters, protects nothing)
        pause = min(longest, 2 * pause)
