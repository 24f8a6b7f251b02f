"""Pausing queues."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from inturn.operations import Operation, Statement, ask, read

PAUSE = """
SELECT {schema}.pause_queue(
    %s, %s, coalesce(%s::timestamptz, {schema}.clock() + %s::interval), %s)
"""
RESUME = "SELECT {schema}.resume_queue(%s, %s)"
PAUSED = """
SELECT queue, paused_at AS since, until, paused_by AS by, reason FROM {schema}.paused_queues
"""


@dataclass(frozen=True, slots=True)
class PausedQueue:
    """A paused queue."""

    queue: str | None  # None: all queues
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
    """Pause a queue, or all (None), until that time, or for that long by the server's clock."""
    yield Statement(PAUSE, [queue, reason, until, length, by])


def resume_queue(queue: str | None, by: str | None) -> Operation[bool]:
    """End a pause. Return False if there is none."""
    return ask(bool, RESUME, queue, by)


def list_paused_queues() -> Operation[list[PausedQueue]]:
    """Return the paused queues, longest first."""
    return read(PausedQueue, PAUSED)
