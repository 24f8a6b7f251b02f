"""How is the queue? The answer that the doctor judges and the dashboard shows, in one statement."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from inturn.operations import Operation, Statement
from inturn.operations.changes.lanes import PausedLane
from inturn.operations.changes.queues import PausedQueue
from inturn.operations.changes.tasks import PausedTask
from inturn.operations.engine.maintenance import judge_schema
from inturn.operations.engine.workers import QueueStatus, WorkerStatus

MOST_WORKERS = 1000
# The size of a table tells whether it ever had a row, without reading any.
SITUATION = """
SELECT {schema}.clock(),
       (SELECT version_num FROM {schema}.schema_version),
       ARRAY(SELECT checksum FROM {schema}.applied_code),
       (SELECT coalesce(jsonb_agg(one), '[]') FROM {schema}.queue_status AS one),
       (SELECT coalesce(jsonb_agg(one), '[]') FROM (
           SELECT id, name, hostname, pid, state, claimed, doing, concurrency, queues, tasks,
                  started_at, heartbeat_at, loop_turned_at, listens, trouble
           FROM {schema}.worker_status LIMIT %s) AS one),
       (SELECT coalesce(jsonb_agg(jsonb_build_array(queue, task)), '[]')
        FROM {schema}.unknown_tasks),
       (SELECT coalesce(jsonb_agg(jsonb_build_array(state, lanes, more)), '[]')
        FROM {schema}.measure_lanes()),
       (SELECT coalesce(jsonb_agg(jsonb_build_array(lock, stopped_at)), '[]')
        FROM {schema}.halted_lanes),
       (SELECT coalesce(jsonb_agg(
            jsonb_build_array(lock, stopped_at, stopped_until, stopped_by, stop_reason)), '[]')
        FROM {schema}.paused_lanes),
       (SELECT coalesce(jsonb_agg(jsonb_build_array(queue, paused_at, until, paused_by, reason)),
            '[]')
        FROM {schema}.paused_queues),
       (SELECT coalesce(jsonb_agg(jsonb_build_array(task, paused_at, until, paused_by, reason)),
            '[]')
        FROM {schema}.paused_tasks),
       has_column_privilege(to_regclass(quote_ident(%s) || '.all_jobs'), 'errors', 'SELECT'),
       NOT EXISTS (
           SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
           WHERE nspname = %s AND (relname = 'jobs' OR relname LIKE 'finished\\_jobs\\_%%')
               AND relkind = 'r' AND pg_relation_size(pg_class.oid) > 0),
       {schema}.explain_read_only()
"""


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of the queue: counts, and what keeps work from starting.

    Every page of the dashboard needs it, and most checks of the doctor.
    """

    now: datetime
    mismatch: tuple[str, str] | None  # why the schema does not match, and the remedy
    queues: list[QueueStatus]
    workers: list[WorkerStatus]
    unknown_tasks: list[tuple[str, str]]
    lanes: dict[str, tuple[int, bool]]  # by state; True: there may be more
    halted: list[tuple[str, datetime]]
    paused: list[PausedLane]
    paused_queues: list[PausedQueue]
    paused_tasks: list[PausedTask]
    may_read_errors: bool
    is_new: bool  # no job was ever stored
    read_only: str | None  # why the database accepts no writes

    @property
    def has_live_worker(self) -> bool:
        return any(worker.state != "late" for worker in self.workers)

    @property
    def has_work(self) -> bool:
        """True if a worker would have something to do now."""
        return any(
            queue.runnable or queue.blocked or queue.limited or queue.claimed or queue.doing
            for queue in self.queues
        )


def get_situation(schema: str) -> Operation[Situation]:
    """Return the situation, in one statement."""
    (row,) = yield Statement(SITUATION, [MOST_WORKERS, schema, schema])
    now, revision, served, queues, workers, unknown, lanes, halted, paused, *others = row
    paused_queues, paused_tasks, may_read, is_new, read_only = others
    return Situation(
        now=now,
        mismatch=judge_schema(schema, revision, served),
        queues=[_make_queue(each) for each in queues],
        workers=[_make_worker(each) for each in workers],
        unknown_tasks=[(queue, task) for queue, task in unknown],
        lanes={state: (count, more) for state, count, more in lanes},
        halted=[(lock, datetime.fromisoformat(at)) for lock, at in halted],
        paused=[
            PausedLane(lock, datetime.fromisoformat(at), _read_time(until), by, reason)
            for lock, at, until, by, reason in paused
        ],
        paused_queues=[
            PausedQueue(queue, datetime.fromisoformat(at), _read_time(until), by, reason)
            for queue, at, until, by, reason in paused_queues
        ],
        paused_tasks=[
            PausedTask(task, datetime.fromisoformat(at), _read_time(until), by, reason)
            for task, at, until, by, reason in paused_tasks
        ],
        may_read_errors=bool(may_read),
        is_new=is_new,
        read_only=read_only,
    )


def _make_queue(row: dict[str, Any]) -> QueueStatus:
    fields = {name: row[name] for name in QueueStatus.__slots__}
    return QueueStatus(**{**fields, "runnable_since": _read_time(row["runnable_since"])})


def _make_worker(row: dict[str, Any]) -> WorkerStatus:
    times = ("started_at", "heartbeat_at", "loop_turned_at")
    read = {name: datetime.fromisoformat(row[name]) for name in times}
    return WorkerStatus(**{**row, **read, "id": UUID(row["id"])})


def _read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
