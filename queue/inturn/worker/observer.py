"""What a worker reports to its metrics, if any."""

from collections.abc import Iterable
from typing import Protocol

from inturn.model import Job, Outcome


class Observer(Protocol):
    """Called in the event loop; must neither wait nor raise."""

    def note_start(self, job: Job, slot_wait: float) -> None:
        """Note that an attempt at the job starts after waiting `slot_wait` seconds for a slot."""

    def note_ends(self, outcomes: Iterable[Outcome]) -> None:
        """Note how attempts ended, once this is stored."""

    def note_refused(self, job: Job, *, unclear: bool) -> None:
        """Note that the end of an attempt was refused because the job is no longer ours.

        `unclear`: an earlier call whose reply was lost may have stored it.
        """

    def note_claim(self, seconds: float, count: int | None) -> None:
        """Note how long a claim took and how many jobs it returned, or None if it failed."""
