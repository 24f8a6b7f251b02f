"""Tasks: counts, failures and times, which workers know them, and pauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from inturn.operations.reading import history
from inturn.operations.reading.history import TaskStatus
from inturn.operations.reading.situation import Situation
from inturn.web.history import read_history
from inturn.web.page import NotThere, View

LOOKED, LISTED, PAUSES = 1000, 40, 10
NEVER = timedelta(0)
SORTS: dict[str, Callable[[TaskStatus], Any]] = {
    "busiest": lambda task: (-task.per_minute, task.task),
    "name": lambda task: task.task,
    "failed": lambda task: (-(task.failed_share or 0), -task.failed, task.task),
    "slowest": lambda task: (-(task.run_p95 or NEVER), task.task),
    "longest wait": lambda task: (-(task.wait_p95 or NEVER), task.task),
}


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Which live workers know which tasks. `unknown`: jobs wait for them in these queues."""

    workers: dict[str, list[str]]  # names of workers, by task
    unknown: dict[str, list[str]]  # names of queues, by task

    @classmethod
    def of(cls, seen: Situation | None) -> Knowledge:
        workers: dict[str, list[str]] = {}
        unknown: dict[str, list[str]] = {}
        for worker in seen.workers if seen else ():
            if worker.takes_jobs():
                for task in worker.tasks or ():
                    workers.setdefault(task, []).append(worker.name)
        for queue, task in seen.unknown_tasks if seen else ():
            unknown.setdefault(task, []).append(queue)
        return cls(workers, unknown)


def read(view: View) -> dict[str, Any]:
    prefix, sort = view.get("prefix"), view.choose("sort", tuple(SORTS))
    tasks = view.read(history.list_tasks(LOOKED))
    found = [each for each in tasks.value or [] if each.task.startswith(prefix)]
    known = Knowledge.of(view.header.value)
    busy = {each.task for each in tasks.value or []}
    others = {*known.workers, *known.unknown} - busy
    quiet = sorted(name for name in others if name.startswith(prefix))
    pauses = view.header.value.paused_tasks if view.header.value else []
    return {
        "tasks": tasks,
        "nothing": None if found else view.read(history.say_nothing_ended()).value,
        "is_new": bool(view.header.value and view.header.value.is_new),
        "found": sorted(found, key=SORTS[sort])[:LISTED],
        "cut": len(found) - LISTED,
        "quiet": quiet[:LISTED],
        "quiet_cut": len(quiet) - LISTED,
        "known": known,
        "pauses": pauses[:PAUSES],
        "pauses_cut": len(pauses) - PAUSES,
        "paused": {pause.task for pause in pauses},
        "prefix": prefix,
        "sort": sort,
        "sorts": tuple(SORTS),
    }


def read_one(view: View) -> dict[str, Any]:
    name = view.get("name")
    if not name:
        raise NotThere("The address names no task.")
    known = Knowledge.of(view.header.value)
    workers = known.workers.get(name, [])
    pauses = view.header.value.paused_tasks if view.header.value else []
    return {
        "name": name,
        "pause": next((each for each in pauses if each.task == name), None),
        **read_history(view, task=name),
        "workers": sorted(workers)[:LISTED],
        "workers_cut": len(workers) - LISTED,
        "waits_in": known.unknown.get(name, [])[:LISTED],
    }
