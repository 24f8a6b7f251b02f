"""The checks of a worker's health, and their HTTP responses.

`live` fails if only a restart can help, so the database does not count: an outage must not restart
all workers. `ready` fails if the worker cannot run jobs now, for whatever reason.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from inturn.endpoint import Answer, Route

LIVE, READY, STARTUP = "/-/live", "/-/ready", "/-/startup"
OK = "ok"
MOST_BLOCKED = 10.0  # seconds for which the event loop may be blocked
MOST_STUCK = 60.0  # seconds for which the worker's loop may wait beyond its normal wait

Checks = Mapping[str, str]  # each value is OK or the problem


class Condition(Protocol):
    """A worker's state. Other threads read it."""

    @property
    def is_registered(self) -> bool:
        """Return True once the worker has registered."""

    @property
    def is_stopping(self) -> bool:
        """Return True if the worker takes no more jobs."""

    @property
    def is_database_away(self) -> bool:
        """Return True if the worker's last call did not reach the database."""

    @property
    def trouble(self) -> str | None:
        """Return why the database refuses a call from the worker, or None."""

    @property
    def last_turn(self) -> float:
        """Return when the worker's loop last did something, by the monotonic clock."""

    @property
    def longest_pause(self) -> float:
        """Return how many seconds its loop may wait when idle."""


class Health:
    """Answers for one worker, which may not have started yet."""

    def __init__(
        self, blocked: Callable[[], float], ask_database: Callable[[], str | None]
    ) -> None:
        self._blocked = blocked  # seconds for which the event loop has been blocked
        self._ask_database = ask_database  # returns its problem or None
        self._worker: Condition | None = None

    def attach(self, worker: Condition) -> None:
        """Answer for this worker from now on."""
        self._worker = worker

    def routes(self) -> dict[str, Route]:
        """Return the routes of the endpoint."""
        return {
            LIVE: lambda _: answer(self.check_life()),
            READY: lambda _: answer(self.check_readiness()),
            STARTUP: lambda _: answer(self.check_start()),
        }

    def check_life(self) -> Checks:
        """Check that the event loop is not blocked."""
        blocked = self._blocked()
        problem = f"blocked for {blocked:.0f} s"
        return {"event loop": OK if blocked <= MOST_BLOCKED else problem}

    def check_start(self) -> Checks:
        """Check that the worker has registered."""
        is_registered = self._worker is not None and self._worker.is_registered
        return {"registered": OK if is_registered else "not yet"}

    def check_readiness(self) -> Checks:
        """Check everything that the worker needs to run jobs."""
        checks = {**self.check_life(), **self.check_start()}
        checks["database"] = self._ask_database() or OK
        worker = self._worker
        if worker is None:
            return checks
        if worker.is_database_away and checks["database"] == OK:
            checks["database"] = "it is back, but the worker has not noticed yet"
        if worker.trouble:
            checks["database"] = "it refuses a call, which is retried: see the worker's log"
        checks["stopping"] = "takes no more jobs" if worker.is_stopping else OK
        stuck = time.monotonic() - worker.last_turn
        is_stuck = stuck > MOST_STUCK + worker.longest_pause
        checks["worker loop"] = f"has waited for {stuck:.0f} s" if is_stuck else OK
        return checks


def answer(checks: Checks) -> Answer:
    """Return 200 if all checks are OK, and otherwise 503, with each check in JSON."""
    is_ok = all(result == OK for result in checks.values())
    body = {"status": OK if is_ok else "failed", "checks": checks}
    text = json.dumps(body, indent=1) + "\n"
    return Answer(200 if is_ok else 503, "application/json", text.encode())
