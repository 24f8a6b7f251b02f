"""How jobs have ended, until the server has stored it.

If a user's open transaction keeps the server from storing an outcome, it is held here and tried
again later. Everything else goes on meanwhile.
"""

import time
from collections.abc import Iterable, Sequence

from inturn.model import Outcome
from inturn.worker import joblog
from inturn.worker.backoff import Backoff

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds before an outcome that is held is tried again
LOGGED_AFTER = 6  # failed tries, about a second


class UnreportedOutcomes:
    """New outcomes, and those that are held."""

    def __init__(self) -> None:
        self._new: list[Outcome] = []
        self._held: list[Outcome] = []
        self._held_until = 0.0
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def __len__(self) -> int:
        return len(self._new) + len(self._held)

    def claims(self) -> set[tuple[int, str]]:
        """Return the job and claim of each outcome."""
        return {(each.job.id, each.job.claim_id) for each in (*self._new, *self._held)}

    @property
    def is_due(self) -> bool:
        """Return True if there is something to report now."""
        return bool(self._new) or (bool(self._held) and time.monotonic() >= self._held_until)

    def until_due(self) -> float | None:
        """Return the seconds until held outcomes may be tried again, or None if none is held."""
        return max(0.0, self._held_until - time.monotonic()) if self._held else None

    def add(self, outcome: Outcome) -> None:
        """Add how a job has ended."""
        self._new.append(outcome)

    def take(self, *, everything: bool = False) -> list[Outcome]:
        """Return the outcomes that are due, or all of them, and forget them."""
        outcomes, self._new = self._new, []
        if self._held and (everything or time.monotonic() >= self._held_until):
            outcomes, self._held = self._held + outcomes, []
        return outcomes

    def requeue(self, outcomes: Iterable[Outcome]) -> None:
        """Keep these in front of the others, because the report failed."""
        self._new[:0] = outcomes

    def hold(self, outcomes: Sequence[Outcome]) -> None:
        """Keep these for later, because open transactions keep the server from storing them.

        Call it after each report. Without outcomes it means that what was held is stored now.
        """
        if outcomes:
            already_held = bool(self._held)  # for their own time, which these must not extend
            self._held += outcomes
            if already_held:
                return
            self._held_until = time.monotonic() + self._backoff.next()
            if self._backoff.failures == LOGGED_AFTER:
                for each in self._held:
                    joblog.note_held(each.job)
        elif self._backoff.failures and not self._held:
            self._backoff.reset()
