"""A table of a run: each fault with its count, operations, violations, and longest gap.

Standard library only.
"""

import bisect
from collections import defaultdict

from tests.evidence.gaps import longest, returns, spans
from tests.evidence.judge import Verdict
from tests.evidence.spans import SECOND


def report(verdict: Verdict) -> str:
    evidence = verdict.evidence
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, -1])
    ends = (run.end for run in evidence.runs if run.end is not None)
    calls = (event.at for event in evidence.events if event.name in ("ok", "fail", "unclear"))
    operations = sorted([*ends, *calls])
    for fault, until in spans(evidence):
        row = rows[fault.kind]
        row[0] += 1
        row[1] += bisect.bisect_left(operations, until) - bisect.bisect_left(
            operations, fault.start
        )
        row[2] += sum(
            fault.start <= violation.found.start < until for violation in verdict.violations
        )
    for fault, start, end in longest(evidence):
        rows[fault.kind][3] = max(rows[fault.kind][3], end - start)
    for fault, wait in returns(evidence):
        rows[fault.kind][4] = max(rows[fault.kind][4], wait)
    lines = [
        "| fault | runs | operations | violations | longest gap (s) | first job after (s) |",
        "|---|---|---|---|---|---|",
    ]
    for kind, (runs, done, bad, gap, wait) in sorted(rows.items()):
        after = "" if wait < 0 else f"{wait / SECOND:.2f}"
        lines.append(f"| {kind} | {runs} | {done} | {bad} | {gap / SECOND:.2f} | {after} |")
    summary = f"jobs {len(evidence.jobs)}, runs {len(evidence.runs)}, violations {len(verdict.violations)}"
    lines += ["", f"{summary}, verdict {verdict.word}", "", "sometimes:"]
    kinds = {fault.kind for fault in evidence.faults}
    lines += [
        f"  {count:7} {name}" for name, count in sorted(verdict.counts.items()) if name not in kinds
    ]
    drained = [event.facts["seconds"] for event in evidence.events if event.name == "drained"]
    lines += [f"drained {drained[0]} s after the last fault"] if drained else []
    return "\n".join(lines)
