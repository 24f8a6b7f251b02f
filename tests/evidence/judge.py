"""The judge of a run: it is valid, invalid, or unknown. Standard library only.

For an invalid run it shows the smallest window of events that proves this.

python -m tests.evidence.judge FOLDER
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.evidence.collect import collect
from tests.evidence.counts import count_all
from tests.evidence.events import Event, read
from tests.evidence.evidence import Evidence
from tests.evidence.finding import Finding
from tests.evidence.promises import PROMISES
from tests.evidence.spans import SECOND

WINDOW = 20  # events to show for each violation
SHOWN = 3  # violations to show for each promise


class Violation(NamedTuple):
    promise: str
    found: Finding

    def __str__(self) -> str:
        return f"[{self.promise}] {self.found.text}"


class Verdict(NamedTuple):
    word: str  # valid, invalid, unknown
    violations: list[Violation]
    gaps: list[str]
    missing: list[str]  # rare events that never occurred, so the run proves too little
    evidence: Evidence
    counts: dict[str, int]  # of rare events

    @property
    def passes(self) -> bool:
        return self.word == "valid" and not self.missing

    @property
    def broken(self) -> set[str]:
        """Return the promises that the run has broken."""
        return {violation.promise for violation in self.violations}


def judge(events: Iterable[Event], gaps: Sequence[str] = ()) -> Verdict:
    evidence = collect(events)
    violations = sorted(
        (Violation(name, found) for name, rule in PROMISES.items() for found in rule(evidence)),
        key=lambda violation: violation.found.start,
    )
    counts = count_all(evidence)
    required = {
        *evidence.settings.required,
        *(show for fault in evidence.faults for show in fault.shows),
    }
    missing = sorted(name for name in required if not counts.get(name))
    word = "unknown" if gaps else "invalid" if violations else "valid"
    return Verdict(word, violations, list(gaps), missing, evidence, counts)


def check(folder: Path) -> Verdict:
    return judge(*read(folder))


def describe(verdict: Verdict) -> str:
    """Return the verdict for people: each violation with the events around it."""
    seed = verdict.evidence.settings.seed
    lines = [f"verdict: {verdict.word}; {len(verdict.violations)} violations; seed {seed}"]
    lines += [f"  gap: {gap}" for gap in verdict.gaps]
    lines += [f"  never happened: {name}" for name in verdict.missing]
    broken = Counter(violation.promise for violation in verdict.violations)
    lines += [f"  {count:6} x {promise}" for promise, count in broken.most_common()]
    printed: Counter[str] = Counter()
    for violation in verdict.violations:
        printed[violation.promise] += 1
        if printed[violation.promise] <= SHOWN:
            lines += ["", str(violation), *_window(verdict.evidence, violation.found)]
    return "\n".join(lines)


def _window(evidence: Evidence, found: Finding) -> list[str]:
    start = evidence.events[0].at if evidence.events else 0
    inside = [
        event
        for event in evidence.events
        if found.start <= event.at <= found.end and _belongs(event, found)
    ]
    faults = [
        fault for fault in evidence.faults if fault.start <= found.end and fault.end >= found.start
    ]
    last = [
        f"  last fault: {fault.kind} at {(fault.start - start) / SECOND:.2f} s"
        for fault in faults[-3:]
    ]
    return last + [
        f"  {(event.at - start) / SECOND:9.3f} {event.who:14} {event.name} {event.facts}"
        for event in inside[-WINDOW:]
    ]


def _belongs(event: Event, found: Finding) -> bool:
    if event.name in ("killed", "exited", "silent", "fault", "fault begins", "forgotten"):
        return True
    if found.lane is not None and event.facts.get("lane") == found.lane:
        return event.name not in ("final", "left")
    if "op" in event.facts:
        return event.facts["op"] in {op for op, _ in found.keys}
    job = event.facts.get("job", "")
    return (tuple(job) if isinstance(job, list) else job) in found.keys


if __name__ == "__main__":
    print(describe(check(Path(sys.argv[1]))))
