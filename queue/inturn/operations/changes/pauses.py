"""Pausing queues and tasks, until a time or for a while by the server's clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, LiteralString

from inturn.operations import Operation, Statement, ask, read

_ARGUMENTS: LiteralString = (
    "(%s, %s, coalesce(%s::timestamptz, {schema}.clock() + %s::interval), %s)"
)
PAUSE_QUEUE: LiteralString = "SELECT {schema}.pause_queue" + _ARGUMENTS
PAUSE_TASK: LiteralString = "SELECT {schema}.pause_task" + _ARGUMENTS
RESUME_QUEUE = "SELECT {schema}.resume_queue(%s, %s)"
RESUME_TASK = "SELECT {schema}.resume_task(%s, %s)"
PAUSED_QUEUES = """
SELECT queue, paused_at AS since, until, paused_by AS by, reason FROM {schema}.paused_queues
"""
PAUSED_TASKS = """
SELECT task, paused_at AS since, until, paused_by AS by, reason FROM {schema}.paused_tasks
"""


@dataclass(frozen=True, slots=True)
class PausedQueue:
    BY_CELL: ClassVar = ("since",)

    queue: str | None  # None: all queues
    since: datetime
    until: datetime | None  # None: until it is resumed
    by: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class PausedTask:
    BY_CELL: ClassVar = ("since",)

    task: str
    since: datetime
    until: datetime | None  # None: until it is resumed
    by: str
    reason: str | None


def pause_queue(
    queue: str | None,
    reason: str | None,
    until: datetime | None,
    by: str | None,
    length: timedelta | None = None,
) -> Operation[None]:
    yield Statement(PAUSE_QUEUE, [queue, reason, until, length, by])


def resume_queue(queue: str | None, by: str | None) -> Operation[bool]:
    """End a pause. Return False if there is none."""
    return ask(bool, RESUME_QUEUE, queue, by)


def list_paused_queues() -> Operation[list[PausedQueue]]:
    """Return the paused queues, longest first."""
    return read(PausedQueue, PAUSED_QUEUES)


def pause_task(
    task: str,
    reason: str | None,
    until: datetime | None,
    by: str | None,
    length: timedelta | None = None,
) -> Operation[None]:
    yield Statement(PAUSE_TASK, [task, reason, until, length, by])


def resume_task(task: str, by: str | None) -> Operation[bool]:
    """End a pause. Return False if there is none."""
    return ask(bool, RESUME_TASK, task, by)


def list_paused_tasks() -> Operation[list[PausedTask]]:
    """Return the paused tasks, longest first."""
    return read(PausedTask, PAUSED_TASKS)
