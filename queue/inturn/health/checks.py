"""The checks of a worker's health, and their HTTP responses.

`live` fails if only a restart can help, so the database does not count: an outage must not restart
all workers. `ready` fails if the worker cannot run jobs now, for whatever reason.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from inturn.endpoint import Answer, Route
from inturn.vitals import Vitals

LIVE, READY, STARTUP = "/-/live", "/-/ready", "/-/startup"
OK = "ok"
MOST_BLOCKED = 10.0  # seconds for which the event loop may be blocked
MOST_STUCK = 60.0  # seconds for which the worker's loop may wait beyond its normal wait

Checks = Mapping[str, str]  # each value is OK or the problem


@dataclass(eq=False)
class Health:
    """Answers for one worker, which may not have started yet."""

    _blocked: Callable[[], float]  # seconds for which the event loop has been blocked
    _ask_database: Callable[[], str | None]  # returns its problem or None
    _look: Callable[[], Vitals] | None = None

    def attach(self, look: Callable[[], Vitals]) -> None:
        self._look = look

    def routes(self) -> dict[str, Route]:
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
        is_registered = self._look is not None and self._look().is_registered
        return {"registered": OK if is_registered else "not yet"}

    def check_readiness(self) -> Checks:
        """Check everything that the worker needs to run jobs."""
        checks = {**self.check_life(), **self.check_start()}
        checks["database"] = self._ask_database() or OK
        if self._look is None:
            return checks
        worker = self._look()
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
