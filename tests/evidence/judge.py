"""The judge of a run: it is valid, invalid, or unknown. Standard library only.

For an invalid run it shows the smallest window of events that proves this.

python -m tests.chaos.checker FOLDER
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.chaos.batch_rules import BATCH_RULES
from tests.chaos.evidence import SECOND, Evidence, collect
from tests.chaos.flow_rules import FLOW_RULES
from tests.chaos.history import Event, read
from tests.chaos.rare import counted
from tests.chaos.rules import RULES, Violation

WINDOW = 20  # events to show for each violation
SHOWN = 3  # violations to show for each rule


class Verdict(NamedTuple):
    word: str  # valid, invalid, unknown
    violations: list[Violation]
    gaps: list[str]
    missing: list[str]  # rare events that never occurred, so the run proves too little
    evidence: Evidence

    @property
    def passes(self) -> bool:
        return self.word == "valid" and not self.missing


def judge(events: Sequence[Event], gaps: Sequence[str] = ()) -> Verdict:
    evidence = collect(events)
    violations = sorted(
        (found for rule in (*RULES, *FLOW_RULES, *BATCH_RULES) for found in rule(evidence)),
        key=lambda found: found.start,
    )
    counts = counted(evidence)
    required = {
        *evidence.settings.get("required", []),
        *(show for fault in evidence.faults for show in fault.shows),
    }
    missing = sorted(name for name in required if not counts.get(name))
    word = "unknown" if gaps else "invalid" if violations else "valid"
    return Verdict(word, violations, list(gaps), missing, evidence)


def check(folder: Path) -> Verdict:
    return judge(*read(folder))


def describe(verdict: Verdict) -> str:
    """Return the verdict for people: each violation with the events around it."""
    lines = [f"verdict: {verdict.word}; {len(verdict.violations)} violations"]
    lines += [f"  gap: {gap}" for gap in verdict.gaps]
    lines += [f"  never happened: {name}" for name in verdict.missing]
    rules = Counter(found.rule for found in verdict.violations)
    lines += [f"  {count:6} x {rule}" for rule, count in rules.most_common()]
    printed: Counter[str] = Counter()
    for found in verdict.violations:
        printed[found.rule] += 1
        if printed[found.rule] <= SHOWN:
            lines += ["", f"[{found.rule}] {found.text}", *_window(verdict.evidence, found)]
    return "\n".join(lines)


def _window(evidence: Evidence, found: Violation) -> list[str]:
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


def _belongs(event: Event, found: Violation) -> bool:
    if event.name in ("killed", "exited", "silent", "fault", "fault begins"):
        return True
    if event.name in ("final", "left"):
        return (event.facts["op"], event.facts["index"]) in found.keys
    same_lane = found.lane is not None and event.facts.get("lane") == found.lane
    return same_lane or event.facts.get("op") in {op for op, _ in found.keys}


if __name__ == "__main__":
    print(describe(check(Path(sys.argv[1]))))
