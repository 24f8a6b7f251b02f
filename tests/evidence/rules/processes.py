"""What holds for processes and the whole: nothing ends unasked, and nothing stands still."""

from collections import defaultdict
from collections.abc import Iterator

from tests.evidence.evidence import Evidence, Run
from tests.evidence.finding import Finding, at_event, at_job, between
from tests.evidence.gaps import longest
from tests.evidence.spans import SECOND


def processes_stay(evidence: Evidence) -> Iterator[Finding]:
    """No process ends unasked, but one that could not even start during a fault."""
    for who, event in evidence.exits.items():
        is_well = event.facts["status"] == 0 and event.facts["asked"]
        if not is_well and not could_not_start(evidence, who):
            last = event.facts.get("last", "")
            yield at_event(event, f"{who} ended with status {event.facts['status']}: {last}")


def could_not_start(evidence: Evidence, who: str) -> bool:
    """Return True if it ended unasked, during a fault, before it ran or logged anything."""
    event = evidence.exits[who]
    did_anything = any(run.who == who for run in evidence.runs) or any(
        each.who == who for each in evidence.named("log")
    )
    if event.facts["asked"] or did_anything:
        return False
    return any(fault.start <= event.at <= fault.end for fault in evidence.faults)


def starts_are_its_own(evidence: Evidence) -> Iterator[Finding]:
    """A process starts nothing that another has started since.

    One start is allowed for each silence: a process can be stopped between the last look at the
    clock and the first line of the task.
    """
    stale: dict[str, list[tuple[Run, Run]]] = defaultdict(list)
    for runs in evidence.runs_of.values():
        for place, run in enumerate(runs):
            others = [other for other in runs[place + 1 :] if other.begin < run.begin]
            if others and run.fence < others[0].fence and not evidence.forgot(others[0], run):
                stale[run.who].append((others[0], run))
    for who, pairs in stale.items():
        allowed = len(evidence.silences.get(who, ()))
        for other, run in pairs[allowed:]:
            yield between(f"{run} was started after {other}", other, run)


def runs_end(evidence: Evidence) -> Iterator[Finding]:
    """Each run ends, or its process dies."""
    for run in evidence.runs:
        if run.end is None and evidence.died(run.who) is None:
            yield between(f"{run} neither ended nor did its process", run, run)


def nothing_left(evidence: Evidence) -> Iterator[Finding]:
    """Nothing is left in the end."""
    for key, state in evidence.left.items():
        yield at_job(evidence, key, f"is left in the end: {state}")


def harness_content(evidence: Evidence) -> Iterator[Finding]:
    """The harness itself has found nothing wrong."""
    for event in evidence.named("problem"):
        yield at_event(event, f"{event.facts['rule']}: {event.facts['text']}")


def moves(evidence: Evidence) -> Iterator[Finding]:
    """While jobs are ready, no more time passes without a start or an end than a fault explains."""
    for fault, start, end in longest(evidence):
        if end - start > fault.bound * SECOND:
            seconds = (end - start) / SECOND
            text = f"nothing ended for {seconds:.1f} s, and jobs were ready: {fault.kind}"
            yield Finding(text, start, end)
