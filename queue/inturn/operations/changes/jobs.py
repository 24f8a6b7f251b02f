"""Inspecting and changing single jobs, and listing and counting jobs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, LiteralString, NamedTuple, TypedDict, cast
from uuid import UUID

from inturn.arguments import decode
from inturn.errors import JobCancelled, JobFailed, JobNotFound
from inturn.model import LIVE, Progress, Reason, Status, StoredJob
from inturn.operations import Operation, Statement, ask, find, read

LISTED = 1_000
COUNTED = 10_000
SEARCHED = 10_000

STATUS = "SELECT status::text FROM {schema}.all_jobs WHERE id = %s"
EXPLAIN = "SELECT reason, detail, unblock FROM {schema}.explain(%s)"
CANCEL = "SELECT {schema}.cancel_job(%s, %s, %s)::text"
DELETE = "SELECT {schema}.delete_job(%s, %s)"
RETRY = "SELECT {schema}.retry_job(%s, %s)"
AWAIT_END = "SELECT status::text, result, error FROM {schema}.await_end(%s)"
DELETE_OLD = "SELECT {schema}.delete_old_jobs(%s, %s, %s::text[]::{schema}.job_status[])"
RETRY_CHANGED = "SELECT {schema}.retry_job_changed(%s, %s, %s, %s, %s, %s)"
# The database counts the attempt that a job is claimed for. People count those before it.
# JSON comes as text: see _make_job.
_JOB: LiteralString = (
    "SELECT id, status::text, queue, priority, lock, queueing_lock, task, args::text, "
    "scheduled_at, attempts - (status IN ('claimed', 'doing'))::int, abort, worker_id, created_at, "
    "started_at, finished_at, fence, timeout, expires_at, limit_key, group_key, batch_id, locks, "
    "shared, errors::text, result::text, progress::text, headers::text FROM "
)
# With the stored status: for the one that people see, each job would read all of its worker's.
STALLED: LiteralString = (
    _JOB + "(SELECT stalled.*, NULL::timestamptz AS finished_at, NULL::jsonb AS result, "  # noqa: S608 (of constants)
    "(SELECT progress FROM {schema}.live_jobs AS live WHERE live.id = stalled.id) AS progress "
    "FROM {schema}.stalled_jobs(%s, %s, %s, %s, %s) AS stalled) AS job"
)
COUNT_BY = """
SELECT name, jobs_count, todo, blocked, limited, scheduled, pending, claimed, doing, succeeded,
       failed, cancelled, aborted, more
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
    batch: int | None = None
    group: str | None = None
    lock_prefix: str | None = None
    error: str | None = None  # a part of the last attempt's error
    before: datetime | None = None  # it ended before this, or was deferred before and has not ended
    ids: Sequence[int] | None = None
    before_id: int | None = None  # for the pages of a list after the first
    search: int = SEARCHED  # how many live, and how many ended, jobs a filtered list searches
    text: ClassVar[LiteralString] = (  # the filter in a statement
        "{schema}.jobs_where(%s::{schema}.job_status[], queue => %s, task => %s, lock => %s, "
        "queueing_lock => %s, worker_id => %s::uuid, batch_id => %s, group_key => %s, "
        "lock_prefix => %s, error => %s, before => %s::timestamptz, ids => %s::bigint[])"
    )
    page_text: ClassVar[LiteralString] = "(%s, " + text + ", %s::bigint, %s::int)"

    def describe_search(self, *, live: bool, ended: bool) -> str:
        """Return which jobs a list searches: `the newest 10,000 live jobs`."""
        number = f"the newest {self.search:,}"
        if live and ended:
            return f"{number} live jobs and {number} that have ended"
        return f"{number} live jobs" if live else f"{number} jobs that have ended"

    def parameters(self) -> list[Any]:
        """Return the parameters of `text`."""
        ids = None if self.ids is None else list(self.ids)
        if self.id is not None:
            ids = [self.id] if ids is None or self.id in ids else []
        return [
            *(list(self.statuses) or None, self.queue, self.task, self.lock, self.queueing_lock),
            *(self.worker_id, self.batch, self.group, self.lock_prefix, self.error, self.before),
            ids,
        ]

    def page_parameters(self, limit: int) -> list[Any]:
        """Return the parameters of `page_text`."""
        return [limit, *self.parameters(), self.before_id, self.search]


class StatusCounts(TypedDict):
    """The number of jobs of a queue, task or lock, by status.

    `more` is True if not all jobs were searched, so the counts are lower bounds.
    """

    name: str
    jobs_count: int
    todo: int
    blocked: int
    limited: int
    scheduled: int
    pending: int
    claimed: int
    doing: int
    succeeded: int
    failed: int
    cancelled: int
    aborted: int
    more: bool


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job in a list, without its arguments, which may be a mebibyte each."""

    id: int
    status: str
    queue: str
    task: str
    lock: str | None
    priority: int
    attempts: int  # including the one that it is claimed for
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    locks: list[str] | None  # all of them if it has several, or shares one
    shared: list[str] | None  # the locks of lanes that it shares
    limit_key: str | None
    group_key: str | None
    batch_id: int | None
    last_error: str | None  # None if it succeeded, even after failed attempts
    columns: ClassVar[LiteralString] = (
        "id, status::text, queue, task, lock, priority, attempts, created_at, scheduled_at, "
        "started_at, finished_at, locks, shared, limit_key, group_key, batch_id, "
        "CASE WHEN status <> 'succeeded' THEN errors -> -1 ->> 'error' END"
    )


LIST: LiteralString = _JOB + "{schema}.list_jobs" + JobFilter.page_text
GET: LiteralString = LIST + " ORDER BY finished_at DESC NULLS FIRST LIMIT 1"
LIST_SUMMARIES: LiteralString = (
    "SELECT " + JobSummary.columns + " FROM {schema}.list_jobs" + JobFilter.page_text  # noqa: S608 (of constants)
)
COUNT: LiteralString = (
    "SELECT jobs_count, more FROM {schema}.count_jobs(%s, " + JobFilter.text + ")"  # noqa: S608 (of constants)
)
SEARCH_IS_CUT: LiteralString = (
    "SELECT live, ended FROM {schema}.search_is_cut" + JobFilter.page_text  # noqa: S608 (of constants)
)


class End(NamedTuple):
    """How a job ended."""

    job_id: int
    status: Status
    result: Any
    error: str | None

    def value(self) -> Any:
        """Return the task's return value, or raise why there is none."""
        if self.status is Status.SUCCEEDED:
            return self.result
        if self.status is Status.FAILED:
            raise JobFailed(self.job_id, self.error)
        raise JobCancelled(self.job_id, self.status, self.error)


def get_status(job_id: int) -> Operation[Status | None]:
    return find(Status, STATUS, job_id)


def get_job(job_id: int) -> Operation[StoredJob | None]:
    rows = yield Statement(GET, JobFilter(id=job_id).page_parameters(LISTED))
    return _make_job(rows[0]) if rows else None


def list_summaries(which: JobFilter, limit: int) -> Operation[list[JobSummary]]:
    """Return the newest jobs, newest first."""
    return read(JobSummary, LIST_SUMMARIES, *which.page_parameters(limit))


def list_jobs(which: JobFilter, limit: int) -> Operation[list[StoredJob]]:
    """Return the newest jobs, oldest first."""
    rows = yield Statement(LIST, which.page_parameters(limit))
    return [_make_job(row) for row in reversed(rows)]


def is_search_cut(which: JobFilter, limit: int) -> Operation[tuple[bool, bool]]:
    """Return whether this list may have missed live jobs, and ended jobs."""
    ((live, ended),) = yield Statement(SEARCH_IS_CUT, which.page_parameters(limit))
    return bool(live), bool(ended)


def list_stalled_jobs(
    silent: timedelta, running: timedelta | None, queue: str | None, task: str | None
) -> Operation[list[StoredJob]]:
    """Return jobs whose worker is silent, or which have been running for longer than `running`."""
    rows = yield Statement(STALLED, [silent, running, LISTED, queue, task])
    return [_make_job(row) for row in rows]


def count_jobs(which: JobFilter, limit: int) -> Operation[tuple[int, bool]]:
    """Return how many jobs there are, and whether there may be more.

    Counting stops at the limit. It searches the newest jobs, as a list does.
    """
    ((count, more),) = yield Statement(COUNT, [limit, *which.parameters()])
    return int(count), bool(more)


def count_jobs_by(by: By, which: JobFilter) -> Operation[list[StatusCounts]]:
    """Return how many jobs there are of each queue, task or lock, as far as searched.

    It supports only statuses, queue, task and lock: monitors may call it, and must not filter by
    columns that they may not read.
    """
    rows = yield Statement(COUNT_BY, [by, COUNTED, LISTED, *which.parameters()[:4]])
    return [
        cast(StatusCounts, dict(zip(StatusCounts.__annotations__, row, strict=True)))
        for row in rows
    ]


def explain(job_id: int) -> Operation[list[Reason]]:
    return read(Reason, EXPLAIN, job_id)


def cancel_job(job_id: int, abort: bool, by: str | None) -> Operation[Status | None]:
    """Cancel a job and return its status then, or None if there is no such job."""
    ((result,),) = yield Statement(CANCEL, [job_id, abort, by])
    return None if result is None else Status(result)


def await_end(job_id: int) -> Operation[End | None]:
    """Return how a job ended. If it has not ended, return None and ask to be notified."""
    rows = yield Statement(AWAIT_END, [job_id])
    if not rows:
        raise JobNotFound(
            f"There is no job {job_id}: it was never deferred, is not committed yet, or ended "
            "without history"
        )
    ((status, result, error),) = rows
    end = End(job_id, Status(status), result, error)
    return None if end.status in LIVE else end


def delete_old_jobs(
    older_than: timedelta, queue: str | None, statuses: Sequence[Status]
) -> Operation[int]:
    """Delete jobs that ended longer ago, and return how many were deleted."""
    return ask(int, DELETE_OLD, older_than, queue, [status.value for status in statuses])


def delete_job(job_id: int, by: str | None) -> Operation[bool]:
    """Delete a job. Return False if it is running or does not exist."""
    return ask(bool, DELETE, job_id, by)


def retry_job(job_id: int, by: str | None) -> Operation[bool]:
    """Run a finished job again, or a scheduled one now. Return False if it is neither."""
    return ask(bool, RETRY, job_id, by)


def retry_job_changed(
    job_id: int,
    at: datetime | None,
    priority: int | None,
    queue: str | None,
    lock: str | None,
    by: str | None,
) -> Operation[bool]:
    """Like `retry_job`, with changes. None keeps a value."""
    return ask(bool, RETRY_CHANGED, job_id, at, priority, queue, lock, by)


def _make_job(row: Sequence[Any]) -> StoredJob:
    """Make a job from a row. JSON that Python cannot read does not affect other jobs."""
    cells = list(row)
    cells[7] = decode(cells[7])
    errors, result, progress, headers = (_read_json(text) for text in cells[-4:])
    cells[-4:] = [
        errors if isinstance(errors, list) else [{"error": errors}],
        result,
        make_progress(progress),
        headers,
    ]
    return StoredJob(*cells)


def make_progress(stored: Mapping[str, Any] | None) -> Progress | None:
    """Return the column `progress` of a view as a `Progress`."""
    if stored is None:
        return None
    updated_at = datetime.fromisoformat(stored["updated_at"])
    return Progress(stored["done"], stored["total"], stored["text"], updated_at)


def _read_json(text: str | None) -> Any:
    """Return the value, or the text itself if Python cannot read it."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text
