"""Periodic jobs: the schedules that workers know, and the progress of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from inturn.operations import Operation, Statement, read

REGISTER = "SELECT {schema}.register_schedules(%s::text[], %s::text[], %s::text[], %s::text[])"
PROGRESS = """
SELECT now, after
FROM {schema}.schedule_progress(%s::text[], %s::text[], %s::text[], %s::text[])
"""
# It fires at its time, so it cannot be ahead by more, unless a clock was wrong.
AHEAD = timedelta(minutes=1)
# An instant further ahead is ignored: see schedule_progress.
IGNORED = timedelta(days=1)
LIST = """
SELECT task, periodic_id, cron, tz, since, last_instant, last_job_id
FROM {schema}.list_schedules(%s)
"""


class KnownSchedule(NamedTuple):
    """A schedule as a worker knows it."""

    task: str
    periodic_id: str
    cron: str
    tz: str


def name_schedule(task: str, periodic_id: str) -> str:
    """Return how metrics and workers name a schedule."""
    return f"{task}:{periodic_id}" if periodic_id else task


class ScheduleProgress(NamedTuple):
    now: datetime
    after: datetime | None  # defer only later instants; None: register it first


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    task: str
    periodic_id: str
    cron: str
    tz: str
    since: datetime
    last_instant: datetime | None
    last_job_id: int | None


def find_ahead(schedule: StoredSchedule, now: datetime) -> timedelta:
    """Return how far ahead of its time a schedule is, because a clock was wrong. Usually 0."""
    return max(timedelta(0), (schedule.last_instant or now) - now)


def find_resumption(schedule: StoredSchedule, now: datetime) -> datetime:
    """Return the time after which it fires: now, or later if a wrong clock set it ahead."""
    is_ahead = AHEAD < find_ahead(schedule, now) <= IGNORED
    return schedule.last_instant if is_ahead and schedule.last_instant else now


def register_schedules(known: Sequence[KnownSchedule]) -> Operation[None]:
    yield Statement(REGISTER, _columns(known))


def get_progress(known: Sequence[KnownSchedule]) -> Operation[list[ScheduleProgress]]:
    """Return the progress of each schedule, in the given order."""
    return read(ScheduleProgress, PROGRESS, *_columns(known))


def list_schedules(limit: int) -> Operation[list[StoredSchedule]]:
    """Return the schedules, sorted by task."""
    return read(StoredSchedule, LIST, limit)


def _columns(known: Sequence[KnownSchedule]) -> list[list[str]]:
    return [list(column) for column in zip(*known, strict=True)]
