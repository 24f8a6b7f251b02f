"""Pausing tasks."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from inturn.operations import Operation, Statement, ask, read

PAUSE = """
SELECT {schema}.pause_task(
    %s, %s, coalesce(%s::timestamptz, {schema}.clock() + %s::interval), %s)
"""
RESUME = "SELECT {schema}.resume_task(%s, %s)"
PAUSED = """
SELECT task, paused_at AS since, until, paused_by AS by, reason FROM {schema}.paused_tasks
"""


@dataclass(frozen=True, slots=True)
class PausedTask:
    """A paused task."""

    task: str
    since: datetime
    until: datetime | None  # None: until it is resumed
    by: str
    reason: str | None


def pause_task(
    task: str,
    reason: str | None,
    until: datetime | None,
    by: str | None,
    length: timedelta | None = None,
) -> Operation[None]:
    """Pause a task until that time, or for that long by the server's clock."""
    yield Statement(PAUSE, [task, reason, until, length, by])


def resume_task(task: str, by: str | None) -> Operation[bool]:
    """End a pause. Return False if there is none."""
    return ask(bool, RESUME, task, by)


def list_paused_tasks() -> Operation[list[PausedTask]]:
    """Return the paused tasks, longest first."""
    return read(PausedTask, PAUSED)
