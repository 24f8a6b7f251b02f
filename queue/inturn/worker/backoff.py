"""How long to wait before the next try at what has just failed."""

import random


class Backoff:
    """Each pause is twice as long as the one before, up to `longest`, and a little shorter by chance: many that failed together
    do not try again together.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self.failures = 0  # in a row

    def next(self) -> float:
        """Return the seconds to wait after another failure."""
        pause = min(self._longest, self._first * float(2 ** min(self.failures, 20)))
        self.failures += 1
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 (it protects nothing)

    def reset(self) -> None:
        self.failures = 0
