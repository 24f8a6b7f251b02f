"""How many jobs ended, and how long they waited and ran, from the rollup."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from inturn.operations import Operation, Statement

TASKS = """
SELECT task, succeeded, failed, cancelled, aborted, per_minute::float8, failed_share::float8,
       wait_p50, wait_p95, run_p50, run_p95
FROM {schema}.task_status LIMIT %s
"""
# Jobs of the last hour are among those that were deferred last, if there are any.
HAS_UNCOUNTED = """
SELECT EXISTS (
    SELECT FROM (
        SELECT finished_at FROM {schema}.finished_jobs ORDER BY id DESC LIMIT 100) AS newest
    WHERE finished_at > {schema}.clock() - interval '1 hour')
"""
BUCKETS = """
SELECT at, name, succeeded, failed, cancelled, aborted, wait_p50, wait_p95, run_p50, run_p95
FROM {schema}.measure_history(%s, p_minutes => %s, p_by => %s, p_task => %s, p_queue => %s)
"""
LANE = """
SELECT ended, failed, since, per_minute, wait_p50, wait_p95, run_p50, run_p95, more
FROM {schema}.measure_lane(%s)
"""
# Of all lanes at once, since the history has no index by lane. Five jobs of one second are five in
# a minute, and not 300, so that the number does not jump.
PACES = """
SELECT lane.lock, 60 * count(*)
    / greatest(extract(epoch FROM {schema}.clock() - min(finished_at)), 60)::float8
FROM (
    SELECT lock, locks, started_at, finished_at FROM {schema}.finished_jobs
    ORDER BY id DESC LIMIT %s
) AS job
CROSS JOIN LATERAL unnest(coalesce(locks, ARRAY[lock])) AS lane(lock)
WHERE lane.lock = ANY (%s::text[]) AND job.lock IS NOT NULL AND started_at IS NOT NULL
    AND finished_at > {schema}.clock() - interval '10 minutes'
GROUP BY lane.lock HAVING count(*) >= 5
"""
MEASURED = 10_000  # jobs that have ended, of all lanes
# Workers without the option keep what other workers are set to keep.
STORED = """
SELECT stored.*, told.keep_history, told.name FROM (
SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint,
       pg_database_size(current_database()), count(*) FILTER (WHERE relname ~ '[0-9]$')
FROM pg_inherits
JOIN pg_class ON pg_class.oid = inhrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relname LIKE 'finished\\_jobs\\_%%'
    -- The sizes of tables have those of their indexes. Empty tables are mostly of days to come.
    AND relkind = 'r' AND pg_relation_size(inhrelid) > 0
) AS stored
LEFT JOIN LATERAL (
    SELECT workers.keep_history, workers.name
    FROM {schema}.workers JOIN {schema}.worker_status USING (id)
    WHERE workers.keep_history IS NOT NULL AND state <> 'late'
    ORDER BY workers.keep_history LIMIT 1
) AS told ON true
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
    """The jobs that ended in some minutes. `name` is a task or a queue, or None for all jobs."""

    at: datetime
    name: str | None
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
    None: no worker sets it.
    """

    history: int
    database: int
    days: int
    keep: float | None = None
    worker: str | None = None


def list_tasks(limit: int) -> Operation[list[TaskStatus]]:
    """Return the tasks whose jobs ended in the last hour, busiest first."""
    rows = yield Statement(TASKS, [limit])
    return [TaskStatus(*row) for row in rows]


def say_nothing_ended() -> Operation[str]:
    """Return why list_tasks found nothing."""
    ((has_uncounted,),) = yield Statement(HAS_UNCOUNTED)
    if has_uncounted:
        return (
            "No figures yet: jobs have ended, and a worker counts them once it has run for a "
            "minute or two."
        )
    return "No jobs ended in the last hour, or no history is kept."


def list_buckets(
    since: datetime,
    minutes: int | None,
    *,
    by: str | None = None,
    task: str | None = None,
    queue: str | None = None,
) -> Operation[list[Bucket]]:
    """Return how many jobs ended per period of minutes, for each task or queue, or for all."""
    rows = yield Statement(BUCKETS, [since, minutes, by, task, queue])
    return [Bucket(*row) for row in rows]


def measure_lane(lock: str) -> Operation[LanePace]:
    """Return how fast a lane went in the last hour."""
    (row,) = yield Statement(LANE, [lock])
    return LanePace(*row)


def measure_paces(locks: Sequence[str]) -> Operation[dict[str, float]]:
    """Return how many jobs a minute ran in each of these lanes in the last ten minutes.

    A lane is missing if fewer than five are among the 10,000 ended jobs that were deferred last.
    """
    rows = yield Statement(PACES, [MEASURED, list(locks)])
    return dict(rows)


def measure_size(schema: str) -> Operation[StoredBytes]:
    """Return how large the history is."""
    (row,) = yield Statement(STORED, [schema])
    return StoredBytes(*row)
