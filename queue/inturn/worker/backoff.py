"""How long to wait before trying again after a failure."""

import random

OUTAGE_PAUSES = 0.1, 1.0  # seconds before the next try: at first, and at most


class Backoff:
    """Pauses that grow from `first` to `longest` seconds.

    Each is twice the previous one, randomly shortened.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self.failures = 0  # in a row

    def next(self) -> float:
        """Return the seconds to wait after another failure."""
        pause = min(self._longest, self._first * float(2 ** min(self.failures, 20)))
        self.failures += 1
        return shorten(pause)

    def reset(self) -> None:
        """Start again with the first pause."""
        self.failures = 0


def shorten(pause: float) -> float:
    """Return the pause, randomly shortened by up to half so that callers do not return together."""
    return pause * random.uniform(0.5, 1.0)  # noqa: S311 (it protects nothing)
