"""How jobs have ended, until the server has stored it.

What a user's open transaction keeps the server from storing is held here and tried again by and by; everything else goes on
meanwhile.
"""

import time
from collections.abc import Iterable

from inturn.model import Outcome
from inturn.worker import joblog
from inturn.worker.backoff import Backoff

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds before a held one is tried again
SAID_AFTER = 6  # tries in vain, about a second


class UnreportedOutcomes:
    def __init__(self) -> None:
        self._new: list[Outcome] = []
        self._held: list[Outcome] = []
        self._held_until = 0.0
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def __len__(self) -> int:
        return len(self._new) + len(self._held)

    def claims(self) -> set[tuple[int, str]]:
        return {(each.job.id, each.job.claim_id) for each in (*self._new, *self._held)}

    @property
    def is_due(self) -> bool:
        """Whether there is something to report now."""
        return bool(self._new) or (bool(self._held) and time.monotonic() >= self._held_until)

    def until_due(self) -> float | None:
        """Seconds until a held one may be tried again; None: none is held."""
        return max(0.0, self._held_until - time.monotonic()) if self._held else None

    def add(self, outcome: Outcome) -> None:
        self._new.append(outcome)

    def take(self, *, everything: bool = False) -> list[Outcome]:
        """What is due, or everything, out of here."""
        outcomes, self._new = self._new, []
        if self._held and (everything or time.monotonic() >= self._held_until):
            outcomes, self._held = self._held + outcomes, []
        return outcomes

    def give_back(self, outcomes: Iterable[Outcome]) -> None:
        """They could not be reported at all."""
        self._new[:0] = outcomes

    def hold(self, outcomes: Iterable[Outcome]) -> None:
        """Somebody's transaction keeps the server from storing these; none: what was held has been stored."""
        outcomes = list(outcomes)
        if outcomes:
            waits = bool(self._held)  # for its own time already, which these must not put off
            self._held += outcomes
            if waits:
                return
            self._held_until = time.monotonic() + self._backoff.next()
            if self._backoff.failures == SAID_AFTER:
                for each in self._held:
                    joblog.note_held(each.job)
        elif not self._held:
            self._backoff.reset()
