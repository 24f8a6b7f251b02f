"""What was seen from outside while workers ran, and the checker that judges it.

It knows nothing of the SQL. A moment is time.monotonic() of the test's process. It is taken before
a call for what the call may have changed, and after its reply for what it has changed. Nothing is
known about the order of calls that overlap, and nothing is demanded. `fence` rises with every
start, so it tells in which order the jobs of a lane were started.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Literal, TypeVar


@dataclass(frozen=True)
class Deferred:
    job: int
    lane: str | None
    priority: int
    call: int  # which call deferred it, and at which place in it
    position: int
    called: float
    committed: float  # infinite: it was rolled back
    scheduled: bool = False


@dataclass(frozen=True)
class Started:
    job: int
    fence: int
    attempt: int
    replied: float


@dataclass(frozen=True)
class Ended:
    """Accepted by the server: the worker's finish or retry, or the rescue of what it was doing."""

    job: int
    how: Literal["finish", "retry", "rescue"]
    called: float


Event = TypeVar("Event", Started, Ended)


@dataclass
class History:
    """Appended to by many threads; a list takes an element at a time."""

    deferred: list[Deferred] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)


def violations(history: History) -> Iterator[str]:
    yield from _lost_and_double(history)
    starts = sorted(history.started, key=lambda start: start.fence)
    lane_of = {job.job: job.lane for job in history.deferred}
    lanes: defaultdict[str, list[Started]] = defaultdict(list)
    for start in starts:
        lane = lane_of[start.job]
        if lane is not None:
            lanes[lane].append(start)
    ends = _by_job(history.ended)
    born = {job.job: job for job in history.deferred}
    for lane, started in lanes.items():
        yield from (f"lane {lane}: {problem}" for problem in _overlaps(started, ends))
        runs = [job for job, _ in groupby(start.job for start in started)]
        for place, job in enumerate(runs):
            if job in runs[:place]:
                between = runs[runs.index(job) + 1 : place]
                yield f"lane {lane}: jobs {between} started between the attempts of job {job}: {ends[job]}"
        yield from (
            f"lane {lane}: {problem}"
            for problem in _disorder([born[job] for job in dict.fromkeys(runs)])
        )


def _lost_and_double(history: History) -> Iterator[str]:
    """Every committed job ends once for good, and each of its attempts ends once."""
    starts, ends = (
        _by_job(sorted(history.started, key=lambda start: start.fence)),
        _by_job(history.ended),
    )
    for job in history.deferred:
        attempts, endings = starts.get(job.job, []), ends.get(job.job, [])
        finishes = sum(end.how == "finish" for end in endings)
        if job.committed == float("inf"):
            if attempts:
                yield f"job {job.job} was rolled back and started"
        elif finishes != 1:
            yield f"job {job.job} was finished {finishes} times"
        elif len(attempts) != len(endings):
            yield f"job {job.job} was started {len(attempts)} times and ended {len(endings)} times"
        elif [start.attempt for start in attempts] != list(range(1, len(attempts) + 1)):
            yield f"job {job.job} counts its attempts wrongly: {attempts}"


def _overlaps(started: list[Started], ends: dict[int, list[Ended]]) -> Iterator[str]:
    """An attempt is surely owned from the reply that started it to the call that ended it."""
    owned = []
    taken: defaultdict[int, int] = defaultdict(int)
    for start in started:
        endings = sorted(end.called for end in ends.get(start.job, []))
        attempt, taken[start.job] = taken[start.job], taken[start.job] + 1
        if attempt < len(endings):
            owned.append((start, endings[attempt]))
    for (one, until), (other, _) in pairwise(owned):
        if other.replied < until:
            yield f"job {other.job} was started before job {one.job} ended"


def _disorder(in_order_of_start: list[Deferred]) -> Iterator[str]:
    """A job committed before another one's INSERT goes first, unless its priority is lower."""
    later: dict[
        int, Deferred
    ] = {}  # of those that started later, by priority, who was committed first
    siblings: dict[
        tuple[int, int], Deferred
    ] = {}  # ... and by call and priority, who was first in it
    for job in reversed([job for job in in_order_of_start if not job.scheduled]):
        for priority, other in later.items():
            if priority >= job.priority and other.committed < job.called:
                yield f"job {other.job} was there before job {job.job}, and started after it"
            sibling = siblings.get((job.call, priority))
            if sibling and (priority, -sibling.position) > (job.priority, -job.position):
                yield f"job {sibling.job} goes before job {job.job} of the same call, and started after it"
        later[job.priority] = min(job, later.get(job.priority, job), key=lambda one: one.committed)
        place = job.call, job.priority
        siblings[place] = min(job, siblings.get(place, job), key=lambda one: one.position)


def _by_job(events: Iterable[Event]) -> dict[int, list[Event]]:
    jobs: defaultdict[int, list[Event]] = defaultdict(list)
    for event in events:
        jobs[event.job].append(event)
    return jobs
