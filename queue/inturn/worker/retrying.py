"""How to try again after failures, and log them, such as those of every call in an outage."""

import logging
import random
import time
from collections.abc import Callable

from inturn.errors import DatabaseUnavailable, WorkerLost

OUTAGE_PAUSES = 0.1, 1.0  # seconds before the next try: at first, and at most
CONDITIONS = (DatabaseUnavailable, WorkerLost)  # they pass; other errors are unexpected
REMINDER = 30.0  # seconds between two lines for the same reason
MOST = 100  # reasons to remember; reasons that contain numbers would pile up


class FailureLog:
    """Warns of a failure when its reason is new, and then every `reminder` seconds.

    The tries in between are logged at DEBUG: several threads that each try once a second would
    flood the log in a long outage.
    """

    def __init__(
        self,
        logger: logging.Logger,
        event: str,
        clock: Callable[[], float] = time.monotonic,
        reminder: float = REMINDER,
    ) -> None:
        self._logger = logger
        self._template = f"{event}: %s; next try in %.1f s"
        self._clock = clock
        self._reminder = reminder
        self._remind_at: dict[str, float] = {}  # when to warn again, by reason
        self.trouble: str | None = None  # an unexpected error of the last try

    def note(self, error: Exception, pause: float) -> None:
        """Log a failure that will be retried after `pause` seconds."""
        reason, now = str(error), self._clock()
        self._remind_at = {each: at for each, at in self._remind_at.items() if at > now}
        is_news = reason not in self._remind_at
        if is_news:
            if len(self._remind_at) >= MOST:
                self._remind_at.clear()
            self._remind_at[reason] = now + self._reminder
        self.trouble = None if isinstance(error, CONDITIONS) else reason
        level = logging.ERROR if self.trouble else logging.WARNING
        self._logger.log(level if is_news else logging.DEBUG, self._template, error, pause)

    def forget(self) -> None:
        """Note a success, so that the next failure is new again."""
        self._remind_at.clear()
        self.trouble = None


class Backoff:
    """Pauses that grow from `first` to `longest` seconds.

    Each is twice the previous one, randomly shortened by up to half so that callers do not return
    together.
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
        """Start again with the first pause."""
        self.failures = 0
