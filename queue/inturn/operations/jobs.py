"""What people do with single jobs, and see of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from inturn.errors import JobCancelled, JobFailed, JobNotFound
from inturn.model import LIVE, Reason, Status
from inturn.operations import Operation, Statement, decode_column

STATUS = "SELECT status::text FROM {schema}.all_jobs WHERE id = %s"
EXPLAIN = "SELECT reason, detail, unblock FROM {schema}.explain(%s)"
CANCEL = "SELECT {schema}.cancel_job(%s, %s)::text"
DELETE = "SELECT {schema}.delete_job(%s)"
RETRY = "SELECT {schema}.retry_job(%s)"
AWAIT_END = "SELECT status::text, result, error FROM {schema}.await_end(%s)"
DELETE_OLD = "SELECT {schema}.delete_old_jobs(%s, %s, %s::text[]::{schema}.job_status[])"
RETRY_CHANGED = "SELECT {schema}.retry_job_changed(%s, %s, %s, %s, %s)"
SHOW = """
SELECT id, status::text, queue, task, lock, priority, attempts, args::text, errors,
       created_at, scheduled_at, started_at, finished_at, worker_id, fence, queueing_lock, timeout::text, result
FROM {schema}.all_jobs WHERE id = %s ORDER BY finished_at DESC NULLS FIRST LIMIT 1
"""
# What was not asked for is NULL and falls away when the statement is planned.
LIST = """
SELECT id, status::text, queue, task, lock, priority, attempts, created_at, scheduled_at, started_at, finished_at,
       errors -> -1 ->> 'error'
FROM {schema}.all_jobs
WHERE (%s::{schema}.job_status[] IS NULL OR status = ANY (%s::{schema}.job_status[]))
  AND (%s::text IS NULL OR queue = %s::text)
  AND (%s::text IS NULL OR task = %s::text)
  AND (%s::text IS NULL OR lock = %s::text)
ORDER BY id DESC LIMIT %s
"""
COUNT = """
SELECT count(*) FROM (
    SELECT FROM {schema}.all_jobs
    WHERE (%s::{schema}.job_status[] IS NULL OR status = ANY (%s::{schema}.job_status[]))
      AND (%s::text IS NULL OR queue = %s::text)
      AND (%s::text IS NULL OR task = %s::text)
      AND (%s::text IS NULL OR lock = %s::text)
    LIMIT %s
) AS counted
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs; what is None does not matter."""

    statuses: Sequence[str] = field(default=())
    queue: str | None = None
    task: str | None = None
    lock: str | None = None

    def parameters(self) -> list[Any]:
        asked = [list(self.statuses) or None, self.queue, self.task, self.lock]
        return [each for value in asked for each in (value, value)]


@dataclass(frozen=True, slots=True)
class Listed:
    """A job in a list."""

    id: int
    status: str
    queue: str
    task: str
    lock: str | None
    priority: int
    attempts: int  # started ones
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """All that is stored of a job."""

    id: int
    status: str
    queue: str
    task: str
    lock: str | None
    priority: int
    attempts: int
    args: dict[str, Any]
    errors: list[dict[str, Any]]
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: UUID | None
    fence: int | None
    queueing_lock: str | None
    timeout: str | None
    result: Any


class End(NamedTuple):
    """How a job ended."""

    job_id: int
    status: Status
    result: Any
    error: str | None

    def value(self) -> Any:
        """What it returned, or raises why it returned nothing."""
        if self.status is Status.SUCCEEDED:
            return self.result
        if self.status is Status.FAILED:
            raise JobFailed(self.job_id, self.error)
        raise JobCancelled(self.job_id, self.status, self.error)


def status(job_id: int) -> Operation[Status | None]:
    rows = yield Statement(STATUS, [job_id])
    return Status(rows[0][0]) if rows else None


def listed(which: Filter, limit: int) -> Operation[list[Listed]]:
    """The newest first."""
    rows = yield Statement(LIST, [*which.parameters(), limit])
    return [Listed(*row) for row in rows]


def counted(which: Filter, limit: int) -> Operation[int]:
    """How many there are, at most limit: counting stops there."""
    ((count,),) = yield Statement(COUNT, [*which.parameters(), limit])
    return int(count)


def shown(job_id: int) -> Operation[Record | None]:
    rows = yield Statement(SHOW, [job_id])
    return Record(*decode_column(rows[0], 7)) if rows else None


def explain(job_id: int) -> Operation[list[Reason]]:
    rows = yield Statement(EXPLAIN, [job_id])
    return [Reason(*row) for row in rows]


def cancel(job_id: int, abort: bool) -> Operation[Status | None]:
    """Where the job is then; None: there is none."""
    ((result,),) = yield Statement(CANCEL, [job_id, abort])
    return None if result is None else Status(result)


def await_end(job_id: int) -> Operation[End | None]:
    """None: it has not ended; from now on its end is told."""
    rows = yield Statement(AWAIT_END, [job_id])
    if not rows:
        raise JobNotFound(
            f"There is no job {job_id}: it was never deferred, is not committed yet, or has ended and left no history"
        )
    ((status, result, error),) = rows
    end = End(job_id, Status(status), result, error)
    return None if end.status in LIVE else end


def delete_old(
    older_than: timedelta, queue: str | None, statuses: Sequence[Status]
) -> Operation[int]:
    """How many were deleted."""
    ((count,),) = yield Statement(
        DELETE_OLD, [older_than, queue, [status.value for status in statuses]]
    )
    return int(count)


def delete(job_id: int) -> Operation[bool]:
    ((gone,),) = yield Statement(DELETE, [job_id])
    return bool(gone)


def retry(job_id: int) -> Operation[bool]:
    ((done,),) = yield Statement(RETRY, [job_id])
    return bool(done)


def retry_changed(
    job_id: int, at: datetime | None, priority: int | None, queue: str | None, lock: str | None
) -> Operation[bool]:
    ((done,),) = yield Statement(RETRY_CHANGED, [job_id, at, priority, queue, lock])
    return bool(done)
