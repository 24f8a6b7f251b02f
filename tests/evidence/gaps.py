"""How long nothing began or ended although something could have run. Standard library only."""

import bisect
import itertools
from collections.abc import Iterator

from tests.evidence.evidence import Evidence
from tests.evidence.spans import FOR_EVER, Fault


def spans(evidence: Evidence) -> Iterator[tuple[Fault, int]]:
    """Yield each fault, and when the next one begins."""
    faults = sorted(evidence.faults, key=lambda fault: fault.start)
    last = evidence.events[-1].at if evidence.events else 0
    starts = [*(fault.start for fault in faults[1:]), last]
    yield from zip(faults, starts, strict=False)


def longest(evidence: Evidence) -> Iterator[tuple[Fault, int, int]]:
    """Yield each fault with the longest time in which everybody was idle without a reason.

    This looks from its start to the start of the next fault.
    """
    idle = list(_idle(evidence))
    for fault, until in spans(evidence):
        inside = [
            (max(start, fault.start), min(end, until))
            for start, end in idle
            if start < until and end > fault.start
        ]
        start, end = max(
            inside, key=lambda gap: gap[1] - gap[0], default=(fault.start, fault.start)
        )
        yield fault, start, end


def returns(evidence: Evidence) -> Iterator[tuple[Fault, int]]:
    """Yield each fault that took the server away, and the time from its return to the first job."""
    begins = sorted(run.begin for run in evidence.runs)
    for fault, until in spans(evidence):
        for event in evidence.events:
            if event.name == "returned" and fault.start <= event.at < until:
                first = bisect.bisect_left(begins, event.at)
                yield fault, (begins[first] if first < len(begins) else until) - event.at


def _idle(evidence: Evidence) -> Iterator[tuple[int, int]]:
    """Yield the times in which nothing began or ended although a job without a lane was ready."""
    begins = (run.begin for run in evidence.runs)
    moves = sorted([*begins, *(run.end for run in evidence.runs if run.end is not None)])
    begun: dict[tuple[str, int], int] = {}
    for run in evidence.runs:
        begun[run.key] = min(begun.get(run.key, run.begin), run.begin)
    ready = sorted(
        (job.committed, begun.get(job.key, FOR_EVER))
        for job in evidence.jobs.values()
        if job.lane is None
        and job.committed is not None
        and job.has_place
        and not job.odd
        and job.limit is None
        and job.expires is None
    )
    waiting: list[int] = []
    place = 0
    for start, end in itertools.pairwise(moves):
        while place < len(ready) and ready[place][0] <= start:
            waiting.append(ready[place][1])
            place += 1
        waiting = [begin for begin in waiting if begin > start]
        if any(begin >= end for begin in waiting):
            yield start, end
