"""The verdict: the worst finding of `queue doctor` that needs no further look."""

from __future__ import annotations

from collections.abc import Iterator

from inturn.doctor.finding import Finding
from inturn.doctor.work import Scene, judge_halted, judge_paused, judge_scene, judge_tasks
from inturn.operations.dashboard import Situation

WORST = ("fail", "warn")


def examine(seen: Situation) -> Iterator[Finding]:
    """Yield what stands in the way of work."""
    if seen.mismatch is not None:
        yield Finding("schema", "fail", *seen.mismatch)
    scene = Scene(seen.now, seen.workers, seen.queues)
    yield judge_halted(scene, seen.halted, ())
    yield from judge_scene(scene)
    yield judge_tasks(scene, seen.unknown_tasks)
    yield judge_paused(scene, seen.paused, [*seen.paused_queues, *seen.paused_tasks])


def find_troubles(seen: Situation) -> list[Finding]:
    """Return what needs a person, the worst first."""
    found = [each for each in examine(seen) if each.state in WORST]
    return sorted(found, key=lambda each: WORST.index(each.state))


def describe(seen: Situation) -> Finding:
    """Return the verdict, in one sentence."""
    troubles = find_troubles(seen)
    if troubles:
        return troubles[0]
    if any(queue.doing or queue.claimed for queue in seen.queues):
        return Finding("verdict", "ok", "All lanes are moving")
    if any(queue.runnable or queue.blocked or queue.limited for queue in seen.queues):
        return Finding("verdict", "ok", "Work waits, and a live worker serves it")
    return Finding("verdict", "ok", "Nothing waits: all work is done")
