"""What a worker reports to its metrics, if it has any."""

from collections.abc import Iterable
from typing import Protocol

from inturn.model import Job, Outcome


class Observer(Protocol):
    """It is called in the event loop, and must neither wait nor raise."""

    def note_start(self, job: Job, slot_wait: float) -> None:
        """Note that an attempt at the job starts, which has waited here for a slot so long."""

    def note_ends(self, outcomes: Iterable[Outcome]) -> None:
        """Note how attempts have ended, now that this is stored."""

    def note_refused(self, job: Job, *, unclear: bool) -> None:
        """Note that the end of an attempt was refused, since the job is no longer ours.

        `unclear`: perhaps an earlier call has stored it, whose reply was lost.
        """

    def note_claim(self, seconds: float, count: int | None) -> None:
        """Note how long a claim took and how many jobs it brought. None: it failed."""
