"""The jobs that every peer runs, and the check of their order.

A job knows its number, its lane and how long it sleeps. Within a lane the numbers rise in the order
of deferring. The trace of a run lists when each job started and ended, so it shows whether the jobs
kept their order and whether two of them overlapped.

A lane's jobs may share another tool than a lock (`Tool`), such as a limit or a batch. Then the
trace is checked for what that tool promises.
"""

from __future__ import annotations

import enum
import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

WARM = 10_000_000  # jobs from this number on warm the workers up and are not counted


class Tool(enum.StrEnum):
    """What the jobs of a lane have in common."""

    LOCK = "lock"  # one at a time, in order
    LIMIT = "limit"  # so many at a time
    RATE = "rate"  # so many a second
    GROUP = "group"  # the groups take turns
    AFTER = "after"  # a chain: each job comes after the one before
    BATCH = "batch"  # the last job starts when all others have ended
    EXPIRY = "expiry"  # each job is useless after an hour


class Load(NamedTuple):
    """How jobs are dealt out: to lanes (0: free jobs), queues and priorities, in turn."""

    lanes: int = 0
    queues: int = 1
    priorities: int = 1
    tool: Tool = Tool.LOCK
    width: int = 1  # how many jobs of a lane may run at a time (limit), or start in a second (rate)


FREE_JOBS = Load()


class Job(NamedTuple):
    number: int
    lane: str | None
    ms: float
    queue: str | None = None  # None is the peer's default queue
    priority: int = 0
    tool: Tool = Tool.LOCK
    width: int = 1
    place: int = 0  # the job's place in its lane

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


def make(
    count: int,
    *,
    first: int = 0,
    lanes: int = 0,
    queues: int = 1,
    priorities: int = 1,
    tool: str = Tool.LOCK,
    width: int = 1,
    ms: float = 0,
) -> list[Job]:
    """Return `count` jobs, dealt out to the lanes in turn. Without lanes, the jobs are free.

    All jobs of a lane have the same queue and the same priority, so their order is their numbers'.
    """
    load = Load(lanes, queues, priorities, Tool(tool), width)
    return [_make_job(number, load, ms) for number in range(first, first + count)]


def _make_job(number: int, load: Load, ms: float) -> Job:
    lane = number % load.lanes if load.lanes else None
    share = number if lane is None else lane
    queue = queue_name(share % load.queues) if load.queues > 1 else None
    name = None if lane is None else f"lane-{lane}"
    place = number // load.lanes if load.lanes else 0
    return Job(number, name, ms, queue, share % load.priorities, load.tool, load.width, place)


def queue_name(index: int) -> str:
    return f"queue-{index}"


def judge(trace: Iterable[Ran], load: Load = FREE_JOBS) -> Verdict:
    """Return how often the jobs did what the tool of their lanes rules out."""
    seen: set[int] = set()
    twice = 0
    lanes = defaultdict(list)
    for ran in trace:
        twice += ran.number in seen
        seen.add(ran.number)
        if ran.lane:
            lanes[ran.lane].append(ran)
    wrong = [_judge(sorted(lane, key=lambda ran: ran.start), load) for lane in lanes.values()]
    return Verdict(sum(w[0] for w in wrong), sum(w[1] for w in wrong), twice)


def _judge(lane: Sequence[Ran], load: Load) -> tuple[int, int]:
    """Return how many jobs of a lane, sorted by start, were out of order and overlapping."""
    match load.tool:
        case Tool.LOCK | Tool.AFTER:
            return _judge_order(lane)
        case Tool.LIMIT:
            return 0, _count_beyond(load.width, lane)
        case Tool.BATCH:
            last = max(lane, key=lambda ran: ran.number)
            return sum(ran is not last and ran.end > last.start for ran in lane), 0
        case _:
            return 0, 0


def _count_beyond(width: int, lane: Sequence[Ran]) -> int:
    """Return how many jobs started while `width` others of the lane were running."""
    ends: list[float] = []
    beyond = 0
    for ran in lane:
        while ends and ends[0] <= ran.start:
            heapq.heappop(ends)
        beyond += len(ends) >= width
        heapq.heappush(ends, ran.end)
    return beyond


def _judge_order(lane: Sequence[Ran]) -> tuple[int, int]:
    highest, free_at, out_of_order, overlapping = -1, 0.0, 0, 0
    for ran in lane:
        out_of_order += ran.number < highest
        overlapping += ran.start < free_at
        highest, free_at = max(highest, ran.number), max(free_at, ran.end)
    return out_of_order, overlapping
