"""Workers: registration, heartbeats, dead workers and their jobs, and their status."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from inturn.operations import Operation, Statement, ask, get_value, read

REGISTER = """
SELECT {schema}.register_worker(%s, %s, %s, %s::text[], %s, %s::text[], %s::text[], %s,
    %s::double precision, %s, %s)
"""
HEARTBEAT = "SELECT {schema}.heartbeat(%s, %s, %s, %s, %s)"
LAST_HEARTBEATS = """
SELECT id, heartbeat_at, late, locked, heartbeat_every FROM {schema}.last_heartbeats(%s)
"""
DECLARE_DEAD = "SELECT {schema}.declare_dead(%s, %s)"
RESCUE = "SELECT id, worker_id, ended_as::text FROM {schema}.rescue(%s)"
UNREGISTER = "SELECT {schema}.unregister_worker(%s, %s, %s)"
LIST = """
SELECT id, name, hostname, pid, state, claimed, doing, concurrency, queues, tasks, started_at,
       heartbeat_at, loop_turned_at, listens, clock_ahead, trouble
FROM {schema}.worker_status LIMIT %s
"""
# The session's settings determine how JSON shows an interval.
LIST_IN_JSON = LIST.replace("clock_ahead", "extract(epoch FROM clock_ahead)::float8 AS clock_ahead")
IN_HAND = """
SELECT job.worker_id, job.id, job.status::text, job.task, job.lock, job.claimed_at
FROM unnest(%s::uuid[]) AS asked(id)
CROSS JOIN LATERAL (
    SELECT worker_id, claimed_jobs.id, status, task, lock, claimed_at FROM {schema}.claimed_jobs
    WHERE worker_id = asked.id ORDER BY status DESC, claimed_at, claimed_jobs.id LIMIT %s) AS job
"""
QUEUES = """
SELECT queue, runnable, runnable_since, blocked, limited, scheduled, pending, claimed, doing,
    workers, more, oldest_id
FROM {schema}.queue_status
"""
RUNNABLE_TASKS = "SELECT queue, task FROM {schema}.runnable_tasks"
SUSPECTS = """
SELECT id, task, lock, deaths FROM {schema}.suspect_jobs ORDER BY deaths DESC, id LIMIT %s
"""


class LastHeartbeat(NamedTuple):
    """The last heartbeat of a worker.

    `late` means that it has jobs and has been silent for too long. `locked` means that its row is
    locked, so its heartbeats cannot be recorded. `every` is its heartbeat interval.
    """

    worker_id: UUID
    heartbeat_at: datetime
    late: bool
    locked: bool
    every: timedelta | None


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    id: UUID
    name: str
    hostname: str
    pid: int
    state: str  # live, stopping, blocked, late
    claimed: int  # jobs that wait for one of its slots
    doing: int
    concurrency: int
    queues: list[str] | None  # None: all; none if it is stopping
    tasks: list[str] | None  # None: unknown
    started_at: datetime
    heartbeat_at: datetime
    loop_turned_at: datetime
    listens: bool | None  # None: listening is off, or unknown
    clock_ahead: timedelta | None = None  # of the server's, at its start; None: unknown
    trouble: str | None = None  # why the database refuses its calls

    def takes_jobs(self, queue: str | None = None) -> bool:
        """Return True if it takes new jobs, of this queue or of any."""
        if self.state == "late" or self.queues == []:
            return False
        return queue is None or self.queues is None or queue in self.queues


@dataclass(frozen=True, slots=True)
class QueueStatus:
    queue: str
    runnable: int
    runnable_since: datetime | None
    blocked: int
    limited: int
    scheduled: int
    pending: int
    claimed: int
    doing: int
    workers: int
    more: bool  # the counts are lower bounds
    oldest_id: int | None  # the runnable job that has been due for longest


@dataclass(frozen=True, slots=True)
class JobInHand:
    """A job of a worker. `status` is doing if it runs, and claimed if it waits for a slot."""

    worker_id: UUID
    id: int
    status: str
    task: str
    lock: str | None
    claimed_at: datetime


@dataclass(frozen=True, slots=True)
class SuspectJob:
    """A job that may be killing its workers."""

    id: int
    task: str
    lock: str | None
    deaths: int


def register_worker(
    name: str,
    hostname: str,
    pid: int,
    queues: Sequence[str] | None,
    concurrency: int,
    tasks: Iterable[str] | None,
    schedules: Iterable[str] = (),
    heartbeat_every: timedelta | None = None,
    keep_history: float | None = None,
    age: timedelta = timedelta(0),
) -> Operation[UUID]:
    """Add a worker and return its id.

    `tasks` are all that it can run, or None if it cannot name them.
    `keep_history` is the days to keep the history, infinity for forever. `age` is the time since
    its first registration.
    """
    names = None if queues is None else list(queues)
    known = [None if tasks is None else list(tasks), list(schedules)]
    told = [heartbeat_every, keep_history, age, datetime.now(UTC)]
    worker_id: UUID = yield from get_value(
        REGISTER, name, hostname, pid, names, concurrency, *known, *told
    )
    return worker_id


def record_heartbeat(
    worker_id: UUID,
    blocked: timedelta = timedelta(0),
    listens: bool | None = None,
    trouble: str | None = None,
    *,
    is_stopping: bool = False,
) -> Operation[bool]:
    """Return False if the worker was declared dead.

    `blocked` is how long its event loop has been blocked. `listens` tells whether notifications
    wake it; None: listening is off. `trouble` is why the database refuses its other calls.
    If it `is_stopping`, it no longer counts as serving its queues.
    """
    return ask(bool, HEARTBEAT, worker_id, blocked, listens, trouble, is_stopping)


def list_last_heartbeats(late_after: timedelta) -> Operation[list[LastHeartbeat]]:
    return read(LastHeartbeat, LAST_HEARTBEATS, late_after)


def declare_dead(silent: Mapping[UUID, datetime]) -> Operation[set[UUID]]:
    """Remove the workers without a heartbeat since these, and return them."""
    rows = yield Statement(DECLARE_DEAD, [list(silent), list(silent.values())])
    return {id for (id,) in rows}


def rescue_jobs(max_lost: int | None) -> Operation[list[tuple[int, UUID, str | None]]]:
    """Take back the jobs of dead workers.

    Return each job, its dead worker, and its final status: `failed` if it was lost too often,
    `aborted` if its worker was asked to abort it. None: it waits for its next attempt.
    """
    return list((yield Statement(RESCUE, [max_lost])))


def unregister_worker(
    worker_id: UUID, error: str | None = None, max_lost: int | None = None
) -> Operation[int]:
    """Remove a worker and return how many jobs were given back.

    After an error they count as lost, as if the worker had died.
    """
    return ask(int, UNREGISTER, worker_id, error, max_lost)


def list_workers(limit: int) -> Operation[list[WorkerStatus]]:
    """Return the workers, late ones first."""
    return read(WorkerStatus, LIST, limit)


def list_jobs_in_hand(worker_ids: Sequence[UUID], limit: int) -> Operation[list[JobInHand]]:
    """Return the first jobs of each of these workers, running ones first."""
    return read(JobInHand, IN_HAND, list(worker_ids), limit)


def list_queues() -> Operation[list[QueueStatus]]:
    """Return the queues with live jobs or a dedicated worker."""
    return read(QueueStatus, QUEUES)


def list_runnable_tasks() -> Operation[list[tuple[str, str]]]:
    """Return queues and tasks of the next jobs, in queues that a worker serves."""
    return list((yield Statement(RUNNABLE_TASKS)))


def list_suspect_jobs(limit: int) -> Operation[list[SuspectJob]]:
    """Return live jobs whose workers have died, worst first."""
    return read(SuspectJob, SUSPECTS, limit)
