"""Inspecting and changing lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

from inturn.model import Lane
from inturn.operations import Operation, Statement, ask, find, get_value, read

_LANE: LiteralString = (
    "SELECT lock, state::text, since, job_id, job_status::text, task, attempts, due_at, worker, "
    "heartbeat_at, waiting, more, last_error, stopped::text, stopped_at, stopped_until, "
    "stopped_by, stop_reason, failed_job_id, failed_task, readers, waits_for "
)
LIST = _LANE + "FROM {schema}.list_lanes(%s, %s)"
GET = _LANE + "FROM {schema}.lane_status WHERE lock = %s"
GET_SOME = _LANE + "FROM {schema}.list_lanes(NULL, NULL, %s::text[])"
BOUND = 1000  # how many halted or paused lanes, or jobs behind a head, are counted
COUNT = "SELECT {schema}.count_lanes(%s, %s)"
REPORT = """
SELECT lock, state, since, worker, stopped::text, stopped_at, stopped_until, stopped_by,
       stop_reason, head_id, head_task, head_attempts, head_created_at, head_at, head_error,
       head_status::text, failed_id, failed_task, failed_attempts, failed_created_at, failed_at,
       failed_error, behind, oldest, next_ids, next_tasks, readers, waits_for
FROM {schema}.lane_report(%s)
"""
PAUSED = """
SELECT lock, stopped_at AS since, stopped_until AS until, stopped_by AS by, stop_reason AS reason
FROM {schema}.paused_lanes
"""
REPAIRED = "SELECT lock FROM {schema}.repaired_lanes"
_ENTRY: LiteralString = "SELECT at, who, operation, jobs, reason, job_id FROM "
AUDIT: LiteralString = _ENTRY + "{schema}.list_audit(%s, %s)"
JOB_AUDIT: LiteralString = _ENTRY + "{schema}.list_job_audit(%s, %s)"
PAUSE = """
SELECT {schema}.pause_lane(
    %s, %s, coalesce(%s::timestamptz, {schema}.clock() + %s::interval), %s)
"""
RESUME = "SELECT {schema}.resume_lane(%s, %s)"
SKIP_HEAD = "SELECT {schema}.skip_head(%s, %s)"
RETRY_HEAD = "SELECT {schema}.retry_head(%s, %s)"
CANCEL_WAITING = "SELECT {schema}.cancel_waiting(%s, %s)"


@dataclass(frozen=True, slots=True)
class Head:
    """The running or next job of a lane, or the failed job that halted it.

    `at` is when a worker claimed it, when it is due, or when it failed.
    """

    id: int
    task: str
    attempts: int
    created_at: datetime
    at: datetime | None
    error: str | None
    status: str = "failed"


@dataclass(frozen=True, slots=True)
class NextJob:
    """A job that waits behind the head."""

    id: int
    task: str


@dataclass(frozen=True, slots=True)
class LaneReport:
    """The state of a lane. It is `free` if it is not held and waits for no other lane."""

    lock: str
    state: str
    since: datetime | None
    worker: str | None
    stopped: str | None
    stopped_at: datetime | None
    stopped_until: datetime | None
    stopped_by: str | None
    stop_reason: str | None
    head: Head | None
    failed: Head | None
    behind: int  # BOUND if there are more
    oldest: datetime | None  # of those that were counted
    next: list[NextJob]  # the first two of them
    readers: int | None = None  # how many jobs share it
    waits_for: str | None = None  # another lane of the head, which keeps it waiting

    @property
    def is_known(self) -> bool:
        """True if the lane has a row or a job."""
        return self.state != "free" or self.head is not None

    @property
    def waiting(self) -> int:
        """The number of waiting jobs, including the head unless it runs."""
        return self.behind + (self.head is not None and not self.head_runs)

    @property
    def head_runs(self) -> bool:
        """True if a worker has the head."""
        return self.state == "held" and self.readers is None

    @property
    def is_cut(self) -> bool:
        """True if more jobs wait than were counted."""
        return self.behind >= BOUND


@dataclass(frozen=True, slots=True)
class PausedLane:
    lock: str
    since: datetime
    until: datetime | None  # None: until it is resumed
    by: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class LongHold:
    """A lane or a limit whose job has run far longer than usual for its task."""

    lock: str | None
    job_id: int
    task: str
    since: datetime
    usual: timedelta | None  # 99 of 100 jobs took at most this long; None: none has ended
    limit_key: str | None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change of a lane or a job by a person."""

    at: datetime
    who: str
    operation: str
    jobs: int
    reason: str | None
    job_id: int | None  # if it was about one job


def list_lanes(limit: int, states: Sequence[str] = ()) -> Operation[list[Lane]]:
    """Return lanes that are held, reserved, stopped or idle: halted ones first, then paused ones.

    `states` restricts them. An empty sequence means any.
    """
    return read(Lane, LIST, limit, list(states) or None)


def get_lane(lock: str) -> Operation[Lane | None]:
    """Return the lane, or None if it is not held, stopped or waiting."""
    return find(Lane, GET, lock)


def count_lanes(limit: int, states: Sequence[str] = ()) -> Operation[int]:
    """Return how many lanes `list_lanes` would return. Counting stops at the limit."""
    return ask(int, COUNT, limit, list(states) or None)


def report_lane(lock: str) -> Operation[LaneReport]:
    (row,) = yield Statement(REPORT, [lock])
    lane, head, failed, (behind, oldest, ids, tasks) = row[:9], row[9:16], row[16:22], row[22:26]
    first = [NextJob(id, task) for id, task in zip(ids, tasks, strict=True)]
    fields = [*lane, _head(head), _head(failed), behind, oldest, first, *row[26:]]
    return LaneReport(*fields)


def pause_lane(
    lock: str,
    reason: str | None,
    until: datetime | None,
    by: str | None,
    length: timedelta | None = None,
) -> Operation[bool]:
    """Pause a lane until that time, for that long by the server's clock, or until it is resumed.

    A pause replaces an earlier one. Return False if the lane is halted.
    """
    return ask(bool, PAUSE, lock, reason, until, length, by)


def resume_lane(lock: str, by: str | None) -> Operation[bool]:
    return ask(bool, RESUME, lock, by)


def skip_head(lock: str, by: str | None) -> Operation[int | None]:
    """Cancel the next job of a lane and return its id, or None if nothing waits."""
    return get_value(SKIP_HEAD, lock, by)


def retry_head(lock: str, by: str | None) -> Operation[int | None]:
    """Retry the job that a lane waits for now. Return its id, or None if there is none."""
    return get_value(RETRY_HEAD, lock, by)


def cancel_waiting(lock: str, by: str | None) -> Operation[int]:
    return ask(int, CANCEL_WAITING, lock, by)


def list_audit(lock: str, limit: int) -> Operation[list[AuditEntry]]:
    """Return the changes of a lane, newest first."""
    return read(AuditEntry, AUDIT, lock, limit)


def list_job_audit(job_id: int, limit: int) -> Operation[list[AuditEntry]]:
    """Return people's changes of a single job, newest first."""
    return read(AuditEntry, JOB_AUDIT, job_id, limit)


def list_repaired_lanes() -> Operation[list[str]]:
    """Return the lanes that the reconciler repaired in the last day, newest first."""
    return read(str, REPAIRED)


def _head(fields: tuple[Any, ...]) -> Head | None:
    return None if fields[0] is None else Head(*fields)
