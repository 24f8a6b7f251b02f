"""Looking at single jobs, lists and counts of jobs, and changing them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, TypedDict, cast
from uuid import UUID

from inturn.errors import JobCancelled, JobFailed, JobNotFound
from inturn.model import LIVE, Reason, Status, StoredJob
from inturn.operations import Operation, Statement, decode_column

LISTED = 1_000
COUNTED = 10_000

STATUS = "SELECT status::text FROM {schema}.all_jobs WHERE id = %s"
EXPLAIN = "SELECT reason, detail, unblock FROM {schema}.explain(%s)"
CANCEL = "SELECT {schema}.cancel_job(%s, %s)::text"
DELETE = "SELECT {schema}.delete_job(%s)"
RETRY = "SELECT {schema}.retry_job(%s)"
AWAIT_END = "SELECT status::text, result, error FROM {schema}.await_end(%s)"
DELETE_OLD = "SELECT {schema}.delete_old_jobs(%s, %s, %s::text[]::{schema}.job_status[])"
RETRY_CHANGED = "SELECT {schema}.retry_job_changed(%s, %s, %s, %s, %s)"
GET = """
SELECT id, status::text, queue, task, lock, priority, attempts, args::text, errors,
       created_at, scheduled_at, started_at, finished_at, worker_id, fence, queueing_lock,
       timeout::text, result
FROM {schema}.all_jobs WHERE id = %s ORDER BY finished_at DESC NULLS FIRST LIMIT 1
"""
LIST_SUMMARIES = """
SELECT id, status::text, queue, task, lock, priority, attempts, created_at, scheduled_at,
       started_at, finished_at, errors -> -1 ->> 'error'
FROM {schema}.list_jobs(%s, %s, %s::{schema}.job_status[], %s, %s, %s, %s, %s::uuid)
"""
# The database counts attempts that were started. People count those before the running one.
LIST = """
SELECT id, status::text, queue, priority, lock, queueing_lock, task, args::text, scheduled_at,
       attempts - (status = 'doing')::int, abort, worker_id
FROM {schema}.list_jobs(%s, %s, %s::{schema}.job_status[], %s, %s, %s, %s, %s::uuid)
ORDER BY id
"""
STALLED = """
SELECT id, status::text, queue, priority, lock, queueing_lock, task, args::text, scheduled_at,
       attempts - 1, abort, worker_id
FROM {schema}.stalled_jobs(%s, %s, %s, %s, %s) ORDER BY id
"""
COUNT = "SELECT {schema}.count_jobs(%s, %s::{schema}.job_status[], %s, %s, %s)"
COUNT_BY = """
SELECT name, jobs_count, todo, blocked, scheduled, doing, succeeded, failed, cancelled, aborted
FROM {schema}.count_jobs_by(%s, %s, %s, %s::{schema}.job_status[], %s, %s, %s)
"""

By = Literal["queue", "task", "lock"]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list or count. None and an empty sequence mean any."""

    statuses: Sequence[str] = ()
    queue: str | None = None
    task: str | None = None
    lock: str | None = None
    id: int | None = None
    queueing_lock: str | None = None
    worker_id: UUID | str | None = None

    def list_parameters(self) -> list[Any]:
        """Return the parameters of list_jobs.sql that follow its limit."""
        return [self.id, *self.count_parameters(), self.queueing_lock, self.worker_id]

    def count_parameters(self) -> list[Any]:
        """Return the parameters of count_jobs.sql that follow its limit."""
        return [list(self.statuses) or None, self.queue, self.task, self.lock]


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
class JobSummary:
    """A job in a list, without its arguments."""

    id: int
    status: str
    queue: str
    task: str
    lock: str | None
    priority: int
    attempts: int  # attempts that were started
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class JobRecord:
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
        """Return what the task returned, or raise the reason why it returned nothing."""
        if self.status is Status.SUCCEEDED:
            return self.result
        if self.status is Status.FAILED:
            raise JobFailed(self.job_id, self.error)
        raise JobCancelled(self.job_id, self.status, self.error)


def get_status(job_id: int) -> Operation[Status | None]:
    """Return the job's status, or None if there is no such job."""
    rows = yield Statement(STATUS, [job_id])
    return Status(rows[0][0]) if rows else None


def get_job(job_id: int) -> Operation[JobRecord | None]:
    """Return all that is stored of a job, or None if there is no such job."""
    rows = yield Statement(GET, [job_id])
    return JobRecord(*decode_column(rows[0], 7)) if rows else None


def list_summaries(which: JobFilter, limit: int) -> Operation[list[JobSummary]]:
    """Return the newest jobs, the newest first."""
    rows = yield Statement(LIST_SUMMARIES, [limit, *which.list_parameters()])
    return [JobSummary(*row) for row in rows]


def list_jobs(which: JobFilter, limit: int) -> Operation[list[StoredJob]]:
    """Return the newest jobs, the oldest of them first."""
    rows = yield Statement(LIST, [limit, *which.list_parameters()])
    return [StoredJob(*decode_column(row, 7)) for row in rows]


def list_stalled_jobs(
    silent: timedelta, running: timedelta | None, queue: str | None, task: str | None
) -> Operation[list[StoredJob]]:
    """Return jobs whose worker is silent, or which have been running for longer than `running`."""
    rows = yield Statement(STALLED, [silent, running, LISTED, queue, task])
    return [StoredJob(*decode_column(row, 7)) for row in rows]


def count_jobs(which: JobFilter, limit: int) -> Operation[int]:
    """Return how many jobs there are. Counting stops at the limit."""
    ((count,),) = yield Statement(COUNT, [limit, *which.count_parameters()])
    return int(count)


def count_jobs_by(by: By, which: JobFilter) -> Operation[list[Counts]]:
    """Return how many jobs there are of each queue, task or lock, among the newest 10,000."""
    rows = yield Statement(COUNT_BY, [by, COUNTED, LISTED, *which.count_parameters()])
    return [cast(Counts, dict(zip(Counts.__annotations__, row, strict=True))) for row in rows]


def explain(job_id: int) -> Operation[list[Reason]]:
    """Return the reasons why a job is not running."""
    rows = yield Statement(EXPLAIN, [job_id])
    return [Reason(*row) for row in rows]


def cancel_job(job_id: int, abort: bool) -> Operation[Status | None]:
    """Cancel a job and return its status then, or None if there is no such job."""
    ((result,),) = yield Statement(CANCEL, [job_id, abort])
    return None if result is None else Status(result)


def await_end(job_id: int) -> Operation[End | None]:
    """Return how a job ended. If it has not ended, return None and ask to be notified."""
    rows = yield Statement(AWAIT_END, [job_id])
    if not rows:
        raise JobNotFound(
            f"There is no job {job_id}: it was never deferred, is not committed yet, or has ended "
            "and left no history"
        )
    ((status, result, error),) = rows
    end = End(job_id, Status(status), result, error)
    return None if end.status in LIVE else end


def delete_old_jobs(
    older_than: timedelta, queue: str | None, statuses: Sequence[Status]
) -> Operation[int]:
    """Delete jobs that ended longer ago, and return how many were deleted."""
    ((count,),) = yield Statement(
        DELETE_OLD, [older_than, queue, [status.value for status in statuses]]
    )
    return int(count)


def delete_job(job_id: int) -> Operation[bool]:
    """Delete a job. Return False if it is running or does not exist."""
    ((gone,),) = yield Statement(DELETE, [job_id])
    return bool(gone)


def retry_job(job_id: int) -> Operation[bool]:
    """Run a finished job again, or a scheduled one now. Return False if it is neither."""
    ((done,),) = yield Statement(RETRY, [job_id])
    return bool(done)


def retry_job_changed(
    job_id: int, at: datetime | None, priority: int | None, queue: str | None, lock: str | None
) -> Operation[bool]:
    """Do the same as `retry_job`, with changes. None leaves a value as it was."""
    ((done,),) = yield Statement(RETRY_CHANGED, [job_id, at, priority, queue, lock])
    return bool(done)
