"""How many jobs ended, and how long they waited and ran, from the rollup."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from inturn.operations import Operation, Statement, ask, read, read_one
from inturn.operations.reading.verify import LastVerification

TASKS = """
SELECT task, succeeded, failed, cancelled, aborted, per_minute::float8, failed_share::float8,
       wait_p50, wait_p95, run_p50, run_p95
FROM {schema}.task_status LIMIT %s
"""
ENDED_LATELY = "SELECT {schema}.ended_lately()"
BUCKETS = """
SELECT at, succeeded, failed, cancelled, aborted, wait_p50, wait_p95, run_p50, run_p95
FROM {schema}.measure_history(%s, p_minutes => %s, p_task => %s, p_queue => %s)
"""
LANE = """
SELECT ended, failed, since, per_minute, wait_p50, wait_p95, run_p50, run_p95, more
FROM {schema}.measure_lane(%s)
"""
PACES = "SELECT lock, per_minute FROM {schema}.measure_paces(%s)"
SIZE = """
SELECT history, database, days, keep_history, worker, at, jobs, violations
FROM {schema}.measure_history_size() LEFT JOIN {schema}.last_verification() ON true
"""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A row of the view task_status: the jobs of a task that ended in the last hour."""

    task: str
    succeeded: int
    failed: int
    cancelled: int
    aborted: int
    per_minute: float
    failed_share: float | None
    wait_p50: timedelta | None
    wait_p95: timedelta | None
    run_p50: timedelta | None
    run_p95: timedelta | None


@dataclass(frozen=True, slots=True)
class Bucket:
    """The jobs that ended in some minutes."""

    at: datetime
    succeeded: int
    failed: int
    cancelled: int
    aborted: int
    wait_p50: timedelta | None
    wait_p95: timedelta | None
    run_p50: timedelta | None
    run_p95: timedelta | None


@dataclass(frozen=True, slots=True)
class LanePace:
    """How fast a lane went in the last hour. `per_minute` is None if fewer than five jobs ended.

    `more`: there are older jobs that were not searched.
    """

    ended: int
    failed: int
    since: datetime | None
    per_minute: float | None
    wait_p50: timedelta | None
    wait_p95: timedelta | None
    run_p50: timedelta | None
    run_p95: timedelta | None
    more: bool


class StoredBytes(NamedTuple):
    """The bytes of the history and the whole database, and the number of days.

    `keep` is the shortest time in days that a live worker is set to keep, and `worker` its name.
    None: no worker sets it. `verified` is what the schedule of `verify` found last.
    """

    history: int
    database: int
    days: int
    keep: float | None = None
    worker: str | None = None
    verified: LastVerification | None = None


def list_tasks(limit: int) -> Operation[list[TaskStatus]]:
    """Return the tasks whose jobs ended in the last hour, busiest first."""
    return read(TaskStatus, TASKS, limit)


def say_nothing_ended() -> Operation[str]:
    """Return why list_tasks found nothing."""
    if (yield from ask(bool, ENDED_LATELY)):
        return (
            "No figures yet: jobs have ended, and a worker counts them once it has run for a "
            "minute or two."
        )
    return "No jobs ended in the last hour, or no history is kept."


def list_buckets(
    since: datetime,
    minutes: int | None,
    *,
    task: str | None = None,
    queue: str | None = None,
) -> Operation[list[Bucket]]:
    """Return how many jobs ended per period of minutes, of a task or queue, or all."""
    return read(Bucket, BUCKETS, since, minutes, task, queue)


def measure_lane(lock: str) -> Operation[LanePace]:
    return read_one(LanePace, LANE, lock)


def measure_paces(locks: Sequence[str]) -> Operation[dict[str, float]]:
    """Return how many jobs a minute ran in each of these lanes in the last ten minutes.

    A lane is missing if fewer than five are among the 10,000 ended jobs that were deferred last.
    """
    return dict((yield Statement(PACES, [list(locks)])))


def measure_size() -> Operation[StoredBytes]:
    (row,) = yield Statement(SIZE)
    history, database, days, keep, worker, *last = row
    verified = None if last[0] is None else LastVerification(*last)
    return StoredBytes(history, database, days, keep, worker, verified)
