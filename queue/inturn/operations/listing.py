"""Jobs as programs list and count them. Bounded: of what is counted only the newest are looked at."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, cast
from uuid import UUID

from inturn.model import StoredJob
from inturn.operations import Operation, Statement, decode_column

LISTED = 1_000
COUNTED = 10_000

# The database counts the attempts that were started, people those before this one.
LIST = """
SELECT id, status::text, queue, priority, lock, queueing_lock, task, args::text, scheduled_at,
       attempts - (status = 'doing')::int,
       EXISTS (SELECT FROM {schema}.jobs WHERE jobs.id = found.id AND jobs.abort),
       worker_id
FROM (
    SELECT * FROM {schema}.all_jobs
    WHERE (%s::bigint IS NULL OR id = %s::bigint)
      AND (%s::text IS NULL OR queue = %s::text)
      AND (%s::text IS NULL OR task = %s::text)
      AND (%s::{schema}.job_status IS NULL OR status = %s::{schema}.job_status)
      AND (%s::text IS NULL OR lock = %s::text)
      AND (%s::text IS NULL OR queueing_lock = %s::text)
      AND (%s::uuid IS NULL OR worker_id = %s::uuid)
    ORDER BY id DESC LIMIT %s
) AS found ORDER BY id
"""
COUNT = """
WITH looked AS MATERIALIZED (
    (SELECT queue, task, lock, status FROM {schema}.jobs
     WHERE (%s::text IS NULL OR queue = %s::text)
       AND (%s::text IS NULL OR task = %s::text)
       AND (%s::{schema}.job_status IS NULL OR status = %s::{schema}.job_status)
       AND (%s::text IS NULL OR lock = %s::text)
       AND (%s::text <> 'lock' OR lock IS NOT NULL)
     ORDER BY id DESC LIMIT %s)
    UNION ALL
    (SELECT queue, task, lock, status FROM {schema}.finished_jobs
     WHERE (%s::text IS NULL OR queue = %s::text)
       AND (%s::text IS NULL OR task = %s::text)
       AND (%s::{schema}.job_status IS NULL OR status = %s::{schema}.job_status)
       AND (%s::text IS NULL OR lock = %s::text)
       AND (%s::text <> 'lock' OR lock IS NOT NULL)
     ORDER BY id DESC LIMIT %s)
), named AS (
    SELECT CASE %s::text WHEN 'queue' THEN queue WHEN 'task' THEN task ELSE lock END AS name, status FROM looked
)
SELECT name, count(*),
       count(*) FILTER (WHERE status = 'todo'), count(*) FILTER (WHERE status = 'blocked'),
       count(*) FILTER (WHERE status = 'scheduled'), count(*) FILTER (WHERE status = 'doing'),
       count(*) FILTER (WHERE status = 'succeeded'), count(*) FILTER (WHERE status = 'failed'),
       count(*) FILTER (WHERE status = 'cancelled'), count(*) FILTER (WHERE status = 'aborted')
FROM named GROUP BY name ORDER BY name LIMIT %s
"""
STALLED = """
SELECT job.id, status::text, queue, priority, lock, queueing_lock, task, args::text, scheduled_at, attempts - 1, abort, worker_id
FROM {schema}.jobs AS job LEFT JOIN {schema}.workers AS worker ON worker.id = job.worker_id
WHERE status = 'doing'
  AND CASE WHEN %s::interval IS NULL
          THEN worker.id IS NULL OR worker.heartbeat_at < {schema}.clock() - %s::interval
          ELSE job.started_at < {schema}.clock() - %s::interval END
  AND (%s::text IS NULL OR queue = %s::text)
  AND (%s::text IS NULL OR task = %s::text)
ORDER BY job.id LIMIT %s
"""

By = Literal["queue", "task", "lock"]


class Counts(TypedDict):
    """How many jobs of one queue, task or lock there are, by status."""

    name: str
    jobs_count: int
    todo: int
    blocked: int
    scheduled: int
    doing: int
    succeeded: int
    failed: int
    cancelled: int
    aborted: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Which jobs; what is None does not matter."""

    id: int | None = None
    queue: str | None = None
    task: str | None = None
    status: str | None = None
    lock: str | None = None
    queueing_lock: str | None = None
    worker_id: UUID | str | None = None


def listed(asked: Asked, limit: int) -> Operation[list[StoredJob]]:
    """The newest so many, the oldest of them first."""
    each = [
        asked.id,
        asked.queue,
        asked.task,
        asked.status,
        asked.lock,
        asked.queueing_lock,
        asked.worker_id,
    ]
    rows = yield Statement(LIST, [*_twice(each), limit])
    return [StoredJob(*decode_column(row, 7)) for row in rows]


def counted(by: By, asked: Asked) -> Operation[list[Counts]]:
    window = [*_twice([asked.queue, asked.task, asked.status, asked.lock]), by, COUNTED]
    rows = yield Statement(COUNT, [*window, *window, by, LISTED])
    return [_counts(row) for row in rows]


def stalled(
    silent: timedelta, since: timedelta | None, queue: str | None, task: str | None
) -> Operation[list[StoredJob]]:
    rows = yield Statement(STALLED, [since, silent, since, *_twice([queue, task]), LISTED])
    return [StoredJob(*decode_column(row, 7)) for row in rows]


def _counts(row: tuple[Any, ...]) -> Counts:
    return cast(Counts, dict(zip(Counts.__annotations__, row, strict=True)))


def _twice(values: list[Any]) -> list[Any]:
    return [each for value in values for each in (value, value)]
