"""Queues: waiting jobs, workers and pauses of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inturn.doctor.finding import name_some
from inturn.doctor.work import is_unserved
from inturn.formatting import visible
from inturn.operations.changes.pauses import PausedQueue
from inturn.operations.engine.workers import QueueStatus
from inturn.operations.reading.situation import Situation
from inturn.web.history import read_history
from inturn.web.page import NotThere, View

LISTED, PAUSES = 40, 10
SORTS: dict[str, Callable[[QueueLine, datetime], Any]] = {
    "name": lambda line, now: line.counts.queue,
    "oldest": lambda line, now: line.counts.runnable_since or now,
    "ready": lambda line, now: -line.counts.runnable,
}


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue and the workers that serve it."""

    counts: QueueStatus
    state: str
    word: str
    served_by: str


def read(view: View) -> dict[str, Any]:
    """Return the queues that match the address. The header has already read all queues."""
    seen = view.header.value
    prefix, sort = view.get("prefix"), view.choose("sort", tuple(SORTS))
    pauses = seen.paused_queues if seen else []
    found = _make_lines(seen, prefix) if seen else []
    return {
        "lines": sorted(found, key=lambda line: SORTS[sort](line, view.now))[:LISTED],
        "cut": len(found) - LISTED,
        "prefix": prefix,
        "sort": sort,
        "sorts": tuple(SORTS),
        "pauses": pauses[:PAUSES],
        "pauses_cut": len(pauses) - PAUSES,
        "everything": next((each for each in pauses if each.queue is None), None),
    }


def read_one(view: View) -> dict[str, Any]:
    name = view.get("name")
    if not name:
        raise NotThere("The address names no queue.")
    seen = view.header.value
    pauses = seen.paused_queues if seen else []
    lines = _make_lines(seen, name) if seen else []
    return {
        "name": name,
        "line": next((line for line in lines if line.counts.queue == name), None),
        "pauses": [each for each in pauses if each.queue in (None, name)],
        "own": next((each for each in pauses if each.queue == name), None),
        **read_history(view, queue=name),
    }


def _make_lines(seen: Situation, prefix: str) -> list[QueueLine]:
    pauses = {pause.queue: pause for pause in seen.paused_queues}
    everything = pauses.get(None)
    lines = []
    for each in seen.queues:
        if each.queue.startswith(prefix):
            state, word = _judge(each, pauses.get(each.queue) or everything)
            takers = [worker.name for worker in seen.workers if worker.takes_jobs(each.queue)]
            served_by = name_some(sorted(map(visible, takers)))
            lines.append(QueueLine(each, state, word, served_by))
    return lines


def _judge(counts: QueueStatus, pause: PausedQueue | None) -> tuple[str, str]:
    if pause is not None:
        return "paused", "paused"
    if is_unserved(counts):
        return "stalled", "no worker"
    if counts.doing or counts.claimed:
        return "doing", "running"
    return ("todo", "waiting") if counts.runnable else ("idle", "idle")
