"""The jobs that every peer runs, and the check of their order.

A job knows its number, its lane and how long it sleeps. Within a lane the numbers rise in the order
of deferring. The trace of a run lists when each job started and ended, so it shows whether the jobs
kept their order and whether two of them overlapped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

WARM = 10_000_000  # jobs from this number on warm the workers up and are not counted


class Job(NamedTuple):
    number: int
    lane: str | None
    ms: float

    @property
    def args(self) -> dict[str, int | str | float]:
        return {"number": self.number, "lane": self.lane or "", "ms": self.ms}


class Ran(NamedTuple):
    """A job that ran. Times are seconds of a clock that all processes of the machine share."""

    number: int
    lane: str
    start: float
    end: float


class Verdict(NamedTuple):
    out_of_order: int = 0
    overlapping: int = 0
    twice: int = 0

    @property
    def fine(self) -> bool:
        return not any(self)

    def __str__(self) -> str:
        return f"{self.out_of_order} out of order, {self.overlapping} overlapping" + (
            f", {self.twice} ran twice" if self.twice else ""
        )


def make(count: int, *, first: int = 0, lanes: int = 0, ms: float = 0) -> list[Job]:
    """Return `count` jobs, dealt out to the lanes in turn. Without lanes, the jobs are free."""
    return [Job(n, f"lane-{n % lanes}" if lanes else None, ms) for n in range(first, first + count)]


def judge(trace: Iterable[Ran]) -> Verdict:
    seen: set[int] = set()
    twice = 0
    lanes = defaultdict(list)
    for ran in trace:
        twice += ran.number in seen
        seen.add(ran.number)
        if ran.lane:
            lanes[ran.lane].append(ran)
    wrong = [_judge_lane(sorted(lane, key=lambda ran: ran.start)) for lane in lanes.values()]
    return Verdict(sum(w[0] for w in wrong), sum(w[1] for w in wrong), twice)


def _judge_lane(lane: Sequence[Ran]) -> tuple[int, int]:
    highest, free_at, out_of_order, overlapping = -1, 0.0, 0, 0
    for ran in lane:
        out_of_order += ran.number < highest
        overlapping += ran.start < free_at
        highest, free_at = max(highest, ran.number), max(free_at, ran.end)
    return out_of_order, overlapping
