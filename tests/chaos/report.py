"""What a run showed, as a table: each fault, how often, operations, violations, the longest gap. Standard library only."""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.checker import Verdict
from tests.chaos.evidence import SECOND, Evidence, Fault
from tests.chaos.rare import counted


def report(verdict: Verdict) -> str:
    evidence = verdict.evidence
    spans = list(_spans(evidence))
    rows: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0.0])
    ends = sorted(run.end for run in evidence.runs if run.end is not None)
    idle = _idle(evidence, ends)
    operations = sorted([*ends, *(event.at for event in evidence.events if event.name in ("ok", "fail", "unclear"))])
    for fault, until in spans:
        row = rows[fault.kind]
        row[0] += 1
        row[1] += bisect.bisect_left(operations, until) - bisect.bisect_left(operations, fault.start)
        row[2] += sum(fault.start <= found.start < until for found in verdict.violations)
        gaps = [min(end, until) - start for start, end in idle if fault.start <= start < until]
        row[3] = max(row[3], *gaps, 0) if gaps else row[3]
    lines = ["| fault | runs | operations | violations | longest gap (s) |", "|---|---|---|---|---|"]
    lines += [
        f"| {kind} | {r[0]:.0f} | {r[1]:.0f} | {r[2]:.0f} | {r[3] / SECOND:.2f} |" for kind, r in sorted(rows.items())
    ]
    calls = len({job.key[0] for job in evidence.jobs.values()})
    lines += [
        "",
        f"jobs {len(evidence.jobs)}, calls {calls}, runs {len(evidence.runs)}, verdict {verdict.word}",
        "",
        "sometimes:",
    ]
    kinds = {fault.kind for fault in evidence.faults}
    lines += [f"  {count:7} {name}" for name, count in sorted(counted(evidence).items()) if name not in kinds]
    drained = [event.facts["seconds"] for event in evidence.events if event.name == "drained"]
    lines += [f"drained {drained[0]} s after the last fault"] if drained else []
    return "\n".join(lines)


def _spans(evidence: Evidence) -> Iterator[tuple[Fault, int]]:
    """Each fault, and when the next one begins."""
    faults = sorted(evidence.faults, key=lambda fault: fault.start)
    last = evidence.events[-1].at if evidence.events else 0
    for fault, following in zip(faults, [*faults[1:], None], strict=True):
        yield fault, following.start if following is not None else last


def _idle(evidence: Evidence, ends: list[int]) -> list[tuple[int, int]]:
    """The times between two ends in which a job without a lane was ready all the while."""
    begun: dict[tuple[str, int], int] = {}
    for run in evidence.runs:
        begun[run.key] = min(begun.get(run.key, run.begin), run.begin)
    ready = [
        (job.committed, begun.get(job.key, 2**63))
        for job in evidence.jobs.values()
        if job.lane is None and job.committed is not None and not job.later and not job.odd
    ]
    ready.sort()
    idle, waiting, place = [], [], 0
    for start, end in itertools.pairwise(ends):
        while place < len(ready) and ready[place][0] <= start:
            waiting.append(ready[place][1])
            place += 1
        waiting = [begin for begin in waiting if begin > start]
        if any(begin >= end for begin in waiting):
            idle.append((start, end))
    return idle
