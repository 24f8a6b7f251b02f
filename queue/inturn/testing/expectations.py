"""Compare the jobs that a test expects with the waiting jobs, and explain each difference."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import EllipsisType
from typing import Any, Protocol

from inturn import arguments
from inturn.tasks.task import Deferrer
from inturn.testing.jobs import Seen, format_args

SHOWN = 5
NOT_COMMITTED = (
    "If you defer a job with connection=, it exists only once that transaction has committed."
)


class DjangoTask(Protocol):
    """A task of Django's framework, which `inturn.django.backend` runs."""

    @property
    def module_path(self) -> str:
        """Return the name of its jobs' task."""


Named = str | Deferrer[..., Any] | DjangoTask


@dataclass(frozen=True, slots=True)
class Wanted:
    """The job that a test expects. All other fields and args can have any value."""

    fields: Mapping[str, Any]
    args: Mapping[str, Any] | None

    def differences(self, job: Seen) -> list[str]:
        """Return one line for each field that differs, and none if this is the job."""
        found = [
            f"{field}: {_format(got)}, not {_format(wanted)}"
            for field, wanted in self.fields.items()
            if (got := getattr(job, field)) != wanted
        ]
        for name, wanted in (self.args or {}).items():
            if name not in job.args:
                found.append(f"{name}: not given, not {_format(wanted)}")
            elif job.args[name] != wanted:
                got = _in_order_of(wanted, job.args[name])
                found.append(f"{name}: {_format(got)}, not {_format(wanted)}")
        return found

    def __str__(self) -> str:
        task = self.fields.get("task", "any task")
        args = "" if self.args is None else f"({format_args(dict(self.args))})"
        others = [
            f"{field} {_format(value)}" for field, value in self.fields.items() if field != "task"
        ]
        return ", ".join([f"{task}{args}", *others])


def wanted(task: Named | None, args: Mapping[str, Any] | EllipsisType, **others: Any) -> Wanted:
    """Return the wanted job. Its args go through JSON too, so that a tuple equals a list."""
    fields = {} if task is None else {"task": task_name(task)}
    fields |= {field: value for field, value in others.items() if value is not ...}
    plain = None if isinstance(args, EllipsisType) else json.loads(arguments.encode(args))
    return Wanted(fields, plain)


def task_name(task: Named) -> str:
    if isinstance(task, str):
        return task
    return task._name if isinstance(task, Deferrer) else task.module_path


def check_enqueued(
    wanted: Wanted, jobs: Sequence[Seen], count: int | None
) -> tuple[list[Seen], str | None]:
    """Return the waiting jobs that match, and what is wrong, if anything."""
    found = [job for job in jobs if job.is_waiting and not wanted.differences(job)]
    if found if count is None else len(found) == count:
        return found, None
    if found or count == 0:
        expected = "1 waiting job" if count == 1 else f"{count} waiting jobs"
        lines = [f"Expected {expected} of {wanted}, found {len(found)}:", *list_jobs(found)]
        others = [job for job in jobs if job not in found]
        if others and len(found) < (count or 0):
            lines += _nearest(wanted, others)
    else:
        lines = [f"Expected a waiting job of {wanted}, found none.", *_nearest(wanted, jobs)]
    return found, "\n".join(lines)


def check_not_enqueued(wanted: Wanted, jobs: Sequence[Seen]) -> str | None:
    found = [job for job in jobs if job.is_waiting and not wanted.differences(job)]
    if not found:
        return None
    lines = [f"Expected no waiting job of {wanted}, found {len(found)}:", *list_jobs(found)]
    return "\n".join(lines)


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

    lines = ["The most similar jobs:"]
    for job in sorted(jobs, key=distance)[:SHOWN]:
        lines.append(f"  {job}")
        lines += [f"      {text}" for text in wanted.differences(job)]
        if not job.is_waiting:
            lines.append(f"      it no longer waits: {job.status}")
    if len(jobs) > SHOWN:
        lines.append(f"  … and {len(jobs) - SHOWN} more")
    return lines


def list_jobs(jobs: Sequence[Seen]) -> list[str]:
    lines = [f"  {job}" for job in jobs[:SHOWN]]
    return lines if len(jobs) <= SHOWN else [*lines, f"  … and {len(jobs) - SHOWN} more"]


def _in_order_of(wanted: object, got: object) -> object:
    """Return an object with its fields as the test has them. The database sorts them by length."""
    if not isinstance(wanted, dict) or not isinstance(got, dict):
        return got
    return {name: _in_order_of(wanted[name], got[name]) for name in wanted if name in got} | {
        name: value for name, value in got.items() if name not in wanted
    }


def _format(value: object) -> str:
    return str(value) if isinstance(value, datetime) else repr(value)
