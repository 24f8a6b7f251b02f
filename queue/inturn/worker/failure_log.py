"""The log of what fails again and again, as each call does while the database is away."""

import logging
import time

REMINDER = 30.0  # seconds between two lines about the same reason


class FailureLog:
    """Warns of a failure when its reason is new, and then every half minute.

    The tries in between are logged for debugging only. Several threads of a worker try once a
    second each, so they would fill the log of a long outage.
    """

    def __init__(self, logger: logging.Logger, event: str) -> None:
        self._logger = logger
        self._template = f"{event}: %s; next try in %.1f s"
        self._reason: str | None = None
        self._remind_at = 0.0

    def note(self, error: Exception, pause: float) -> None:
        """Log that it has failed, and will be tried again after `pause` seconds."""
        reason, now = str(error), time.monotonic()
        is_news = reason != self._reason or now >= self._remind_at
        if is_news:
            self._reason, self._remind_at = reason, now + REMINDER
        self._logger.log(
            logging.WARNING if is_news else logging.DEBUG, self._template, error, pause
        )

    def forget(self) -> None:
        """Note that it works, so that the next failure is news."""
        self._reason = None
