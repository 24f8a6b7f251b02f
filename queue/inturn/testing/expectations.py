"""What a test expects to be enqueued, held against what is: the message of a failure is what all of this is for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import EllipsisType
from typing import Any

from inturn import arguments
from inturn.tasks.task import Deferrer
from inturn.testing.jobs import Seen, written

SHOWN = 5
NOT_COMMITTED = (
    "A job that is deferred with connection= is there when that transaction commits, not before."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """`...` in a field: it does not matter. `args` are those that do, the others are not looked at."""

    task: str | EllipsisType = ...
    args: Mapping[str, Any] | EllipsisType = ...
    lock: str | EllipsisType | None = ...
    queue: str | EllipsisType = ...
    priority: int | EllipsisType = ...
    scheduled_at: datetime | EllipsisType | None = ...

    def differences(self, job: Seen) -> list[str]:
        """One line for each field that differs; none: this is the job."""
        found = []
        for field in ("task", "lock", "queue", "priority", "scheduled_at"):
            wanted, got = getattr(self, field), getattr(job, field)
            if wanted is not ... and wanted != got:
                found.append(f"{field}: {_shown(got)}, not {_shown(wanted)}")
        for name, wanted in ({} if isinstance(self.args, EllipsisType) else self.args).items():
            if name not in job.args:
                found.append(f"{name}: not given, not {_shown(wanted)}")
            elif job.args[name] != wanted:
                found.append(f"{name}: {_shown(job.args[name])}, not {_shown(wanted)}")
        return found

    def __str__(self) -> str:
        task = "any task" if self.task is ... else str(self.task)
        args = "" if isinstance(self.args, EllipsisType) else f"({written(dict(self.args))})"
        others = [
            f"{field} {_shown(value)}"
            for field in ("lock", "queue", "priority", "scheduled_at")
            if (value := getattr(self, field)) is not ...
        ]
        return ", ".join([f"{task}{args}", *others])


def wanted(
    task: "str | Deferrer[...] | None", args: Mapping[str, Any] | EllipsisType, **others: Any
) -> Wanted:
    """Arguments as they are after the way through JSON, so that a tuple equals the list that it becomes."""
    name = ... if task is None else task_name(task)
    plain = args if isinstance(args, EllipsisType) else json.loads(arguments.encode(args))
    return Wanted(name, plain, **others)


def task_name(task: "str | Deferrer[...]") -> str:
    return task if isinstance(task, str) else task._name


def enqueued(
    wanted: Wanted, jobs: Sequence[Seen], count: int | None
) -> tuple[list[Seen], str | None]:
    """The waiting jobs that are wanted, and what is wrong, if anything is."""
    waiting = [job for job in jobs if job.is_waiting]
    found = [job for job in waiting if not wanted.differences(job)]
    if found if count is None else len(found) == count:
        return found, None
    if found or count == 0:
        lines = [
            f"{len(found)} {_jobs(len(found))} where {count} should, of {wanted}:",
            *_listed(found),
        ]
        others = [job for job in jobs if job not in found]
        if others and len(found) < (count or 0):
            lines += _nearest(wanted, others)
    else:
        lines = [f"No job waits of {wanted}.", *_nearest(wanted, jobs)]
    return found, "\n".join(lines)


def not_enqueued(wanted: Wanted, jobs: Sequence[Seen]) -> str | None:
    found = [job for job in jobs if job.is_waiting and not wanted.differences(job)]
    if not found:
        return None
    return "\n".join(
        [f"{len(found)} {_jobs(len(found))} and none should, of {wanted}:", *_listed(found)]
    )


def _nearest(wanted: Wanted, jobs: Sequence[Seen]) -> list[str]:
    if not jobs:
        return [f"No job was ever enqueued in this database. {NOT_COMMITTED}"]

    def distance(job: Seen) -> tuple[bool, int, bool, int]:
        differences = wanted.differences(job)
        return (
            any(text.startswith("task: ") for text in differences),
            len(differences),
            not job.is_waiting,
            job.id,
        )

    lines = ["The nearest:"]
    for job in sorted(jobs, key=distance)[:SHOWN]:
        lines.append(f"  {job}")
        lines += [f"      {text}" for text in wanted.differences(job)]
        if not job.is_waiting:
            lines.append(f"      it does not wait any more: {job.status}")
    if len(jobs) > SHOWN:
        lines.append(f"  … and {len(jobs) - SHOWN} more")
    return lines


def _listed(jobs: Sequence[Seen]) -> list[str]:
    lines = [f"  {job}" for job in jobs[:SHOWN]]
    return lines if len(jobs) <= SHOWN else [*lines, f"  … and {len(jobs) - SHOWN} more"]


def _jobs(count: int) -> str:
    return "job waits" if count == 1 else "jobs wait"


def _shown(value: object) -> str:
    return str(value) if isinstance(value, datetime) else repr(value)
