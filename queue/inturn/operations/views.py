"""What people see of workers, queues, the audit and the database as a whole. Bounded: no big table is counted to its end."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from inturn.operations import Operation, Statement

NOW = "SELECT {schema}.clock()"
WORKERS = """
SELECT id, name, hostname, pid, state, doing, concurrency, queues, tasks, started_at, heartbeat_at, loop_turned_at
FROM {schema}.worker_status LIMIT %s
"""
QUEUES = """
SELECT queue, runnable, runnable_since, blocked, scheduled, doing, workers, more FROM {schema}.queue_status
"""
AUDIT = """
SELECT at, who, operation, jobs, reason FROM {schema}.lane_audit WHERE lock = %s ORDER BY id DESC LIMIT %s
"""
RECONCILED = """
SELECT lock, at FROM (SELECT * FROM {schema}.lane_audit ORDER BY id DESC LIMIT 10000) AS newest
WHERE operation = 'reconcile' AND at > {schema}.clock() - interval '1 day' ORDER BY id DESC
"""
HALTED = "SELECT lock, stopped_at FROM {schema}.lanes WHERE stopped = 'halted' ORDER BY stopped_at LIMIT 1000"
# Of the first 1,000 jobs that could start in each queue that somebody serves.
UNKNOWN_TASKS = """
WITH served AS MATERIALIZED (
    SELECT queue FROM {schema}.queue_status WHERE workers > 0
), waiting AS MATERIALIZED (
    SELECT DISTINCT served.queue, job.task FROM served CROSS JOIN LATERAL (
        (SELECT task FROM {schema}.jobs
         WHERE status = 'todo' AND lock IS NULL AND jobs.queue = served.queue ORDER BY priority DESC, id LIMIT 1000)
        UNION ALL
        (SELECT task FROM {schema}.jobs
         WHERE status = 'todo' AND lock IS NOT NULL AND jobs.queue = served.queue ORDER BY priority DESC, id LIMIT 1000)
    ) AS job
), live AS MATERIALIZED (
    SELECT queues, tasks FROM {schema}.worker_status WHERE state <> 'late'
)
SELECT queue, task FROM waiting
WHERE NOT EXISTS (
    SELECT FROM live
    WHERE (queues IS NULL OR waiting.queue = ANY (queues)) AND (tasks IS NULL OR waiting.task = ANY (tasks))
)
ORDER BY queue, task
"""
SUSPECTS = (
    "SELECT id, task, lock, deaths FROM {schema}.suspect_jobs ORDER BY deaths DESC, id LIMIT %s"
)
OLDEST_TRANSACTION = """
SELECT pid, coalesce(application_name, ''), coalesce(state, ''), clock_timestamp() - xact_start FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND xact_start IS NOT NULL
ORDER BY xact_start LIMIT 1
"""
SEQUENCES_BEHIND = "SELECT sequence, last, needed FROM {schema}.sequences_behind()"
SERVER_TIME = "SELECT clock_timestamp()"


@dataclass(frozen=True, slots=True)
class Worker:
    id: UUID
    name: str
    hostname: str
    pid: int
    state: str  # live, blocked, late
    doing: int
    concurrency: int
    queues: list[str] | None  # None: all
    tasks: list[str] | None  # None: not told
    started_at: datetime
    heartbeat_at: datetime
    loop_turned_at: datetime


@dataclass(frozen=True, slots=True)
class Queue:
    queue: str
    runnable: int
    runnable_since: datetime | None
    blocked: int
    scheduled: int
    doing: int
    workers: int
    more: bool  # the counts are at least so many


@dataclass(frozen=True, slots=True)
class Entry:
    """What somebody did to a lane."""

    at: datetime
    who: str
    operation: str
    jobs: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A job that may be what workers die of."""

    id: int
    task: str
    lock: str | None
    deaths: int


@dataclass(frozen=True, slots=True)
class Transaction:
    pid: int
    application: str
    state: str
    age: timedelta


def now() -> Operation[datetime]:
    """The engine's clock."""
    ((at,),) = yield Statement(NOW)
    assert isinstance(at, datetime)
    return at


def server_time() -> Operation[datetime]:
    """The server's clock, whatever the engine's was set to."""
    ((at,),) = yield Statement(SERVER_TIME)
    assert isinstance(at, datetime)
    return at


def workers(limit: int) -> Operation[list[Worker]]:
    """Late ones first."""
    rows = yield Statement(WORKERS, [limit])
    return [Worker(*row) for row in rows]


def queues() -> Operation[list[Queue]]:
    rows = yield Statement(QUEUES)
    return [Queue(*row) for row in rows]


def audited(lock: str, limit: int) -> Operation[list[Entry]]:
    """The newest first."""
    rows = yield Statement(AUDIT, [lock, limit])
    return [Entry(*row) for row in rows]


def reconciled() -> Operation[list[tuple[str, datetime]]]:
    """The lanes that the reconciler had to wake in the last day, the newest first."""
    rows = yield Statement(RECONCILED)
    return [(lock, at) for lock, at in rows]


def halted() -> Operation[list[tuple[str, datetime]]]:
    """The lanes that a failed job has stopped, the oldest first; at most 1,000."""
    rows = yield Statement(HALTED)
    return [(lock, at) for lock, at in rows]


def unknown_tasks() -> Operation[list[tuple[str, str]]]:
    """Queues and tasks of waiting jobs that no live worker of the queue knows."""
    rows = yield Statement(UNKNOWN_TASKS)
    return [(queue, task) for queue, task in rows]


def suspects(limit: int) -> Operation[list[Suspect]]:
    """Live jobs over which workers have died, the worst first."""
    rows = yield Statement(SUSPECTS, [limit])
    return [Suspect(*row) for row in rows]


def sequences_behind() -> Operation[list[tuple[str, int, int]]]:
    """Sequences that would hand out a number again: where they are, and where they must be."""
    rows = yield Statement(SEQUENCES_BEHIND)
    return [(sequence, last, needed) for sequence, last, needed in rows]


def oldest_transaction() -> Operation[Transaction | None]:
    """Of this database, as far as the user may see it."""
    rows = yield Statement(OLDEST_TRANSACTION)
    return Transaction(*rows[0]) if rows else None
