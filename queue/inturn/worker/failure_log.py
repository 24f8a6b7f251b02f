"""Logs failures that repeat, as those of every call while the database is away."""

import logging
import time
from collections.abc import Callable

from inturn.errors import DatabaseUnavailable, WorkerLost

CONDITIONS = (DatabaseUnavailable, WorkerLost)
REMINDER = 30.0  # seconds between two lines about the same reason
MOST = 100  # reasons to remember; those with numbers in them would pile up


def is_unlisted(error: Exception) -> bool:
    """Return True if nobody has listed it among the conditions that pass."""
    return not isinstance(error, CONDITIONS)


class FailureLog:
    """Warns of a failure when its reason is new, and then every `reminder` seconds.

    The tries in between are logged for debugging only. Several threads of a worker each try
    once a second, so they would fill the log of a long outage.
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
        self.trouble: str | None = None  # an error of the last try that nobody has listed

    def note(self, error: Exception, pause: float) -> None:
        """Log that it has failed, and will be tried again after `pause` seconds."""
        reason, now = str(error), self._clock()
        self._remind_at = {each: at for each, at in self._remind_at.items() if at > now}
        is_news = reason not in self._remind_at
        if is_news:
            if len(self._remind_at) >= MOST:
                self._remind_at.clear()
            self._remind_at[reason] = now + self._reminder
        self.trouble = reason if is_unlisted(error) else None
        level = logging.ERROR if self.trouble else logging.WARNING
        self._logger.log(level if is_news else logging.DEBUG, self._template, error, pause)

    def forget(self) -> None:
        """Note that it works, so that the next failure is news."""
        self._remind_at.clear()
        self.trouble = None
