"""What is known of when something was: spans of time. Standard library only.

A time is taken before a call for what the call may do, and after its reply for what it has done.
So a span is either *certain* (something held from its start to its end: a run, a silence, a pause)
or it *contains a moment* (a job was inserted somewhere between its call and the answer). Without
an answer, the span has no end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SECOND = 1_000_000_000
FOR_EVER = 2**63


@dataclass(frozen=True)
class Span:
    start: int
    end: int = FOR_EVER

    def covers(self, at: int) -> bool:
        return self.start < at < self.end

    def is_before(self, other: "Span") -> bool:
        """Return True if this was over when the other one began, for all that can have been."""
        return self.end < other.start


@dataclass(frozen=True)
class Silence(Span):
    """A time in which the database could not hear a process: it was stopped or cut off."""

    how: str = "stopped"


@dataclass(frozen=True)
class Pause(Span):
    """A lane in which nobody may start anything."""

    fence: int = 0  # a run with a higher one was claimed after the pause


@dataclass(frozen=True)
class Fault(Span):
    kind: str = ""
    bound: float = float("inf")  # seconds: the longest idle time that a fault excuses
    shows: Sequence[str] = ()  # rare events that must occur in a run with it
