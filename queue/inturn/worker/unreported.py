"""How jobs ended, until the server has stored it."""

import math
import time
from collections.abc import Iterable, Sequence

from inturn.model import Outcome
from inturn.worker import joblog
from inturn.worker.retrying import Backoff

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds before a held outcome is retried
LOGGED_AFTER = 6  # failed tries, about a second


class UnreportedOutcomes:
    """New outcomes, and outcomes that are held.

    An outcome is held and retried later if an open transaction of yours keeps the server from
    storing it. The others do not wait for it.
    """

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

    def until_due(self) -> float:
        """Return the seconds until there is something to report, or infinity."""
        if self._new:
            return 0.0
        return max(0.0, self._held_until - time.monotonic()) if self._held else math.inf

    def add(self, outcome: Outcome) -> None:
        """Add a new outcome."""
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

        Call it after each report. No outcomes means that the held ones are now stored.
        """
        if outcomes:
            already_held = bool(self._held)  # until their own time, which these must not extend
            self._held += outcomes
            if already_held:
                return
            self._held_until = time.monotonic() + self._backoff.next()
            if self._backoff.failures == LOGGED_AFTER:
                for each in self._held:
                    joblog.note_held(each.job)
        elif self._backoff.failures and not self._held:
            self._backoff.reset()
