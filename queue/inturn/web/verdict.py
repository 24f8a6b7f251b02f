"""The verdict: the worst finding of `queue doctor` about stuck work."""

from collections.abc import Iterator

from inturn.doctor.finding import Finding
from inturn.doctor.work import examine_work
from inturn.formatting import at_least
from inturn.operations.reading.situation import Situation
from inturn.operations.reading.standstill import Standstill
from inturn.web.reading import Panel

WORST = ("fail", "warn")
STANDING = ("delayed", "stalled", "retrying")  # states of lanes that may recover by themselves
UNKNOWN = "unknown whether work waits, because it could not be read"


def examine(seen: Situation, still: Standstill | None = None) -> Iterator[Finding]:
    """Yield what blocks work, causes before their effects."""
    if seen.mismatch is not None:
        yield Finding("schema", "fail", *seen.mismatch)
    yield from examine_work(seen, still)


def find_troubles(seen: Situation, still: Panel[Standstill]) -> list[Finding]:
    """Return what needs a person, worst first. Unreadable data counts as trouble."""
    found = [each for each in examine(seen, still.value) if each.state in WORST]
    if still.problem is not None:
        unknown = f"{UNKNOWN}: {still.problem.title}"
        found.append(Finding("waiting", "warn", unknown, still.problem.detail))
    return sorted(
        found, key=lambda each: (not _stops_everything(each, seen), WORST.index(each.state))
    )


def _stops_everything(finding: Finding, seen: Situation) -> bool:
    if finding.check == "paused":
        return any(each.queue is None for each in seen.paused_queues)
    return finding.check in ("schema", "workers") and finding.state == "fail"


def describe(seen: Situation, troubles: list[Finding]) -> Finding:
    """Return the verdict in one sentence. It is calm only without trouble."""
    if troubles:
        return troubles[0]
    counts = {state: seen.lanes.get(state, (0, False)) for state in STANDING}
    standing = [f"{at_least(*count)} {state}" for state, count in counts.items() if count[0]]
    if standing:
        names = ", ".join(standing)
        return Finding("verdict", "ok", f"No lane needs a person. Some are not moving now: {names}")
    if any(queue.doing or queue.claimed for queue in seen.queues):
        return Finding("verdict", "ok", "All lanes are moving")
    if any(queue.runnable or queue.blocked or queue.limited for queue in seen.queues):
        return Finding("verdict", "ok", "Work waits, and a live worker serves it")
    return Finding("verdict", "ok", "Nothing waits: all work is done")
