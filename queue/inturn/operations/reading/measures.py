"""Numbers for metrics. No statement counts everything."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from inturn.operations import Operation, Statement
from inturn.operations.engine.maintenance import IS_MIGRATED

# Other versions may have more columns, so a row comes as one object.
QUEUES = """
SELECT to_jsonb(status), extract(epoch FROM {schema}.clock() - runnable_since)::float8
FROM {schema}.queue_status AS status
"""
WAITING = """
SELECT queue, extract(epoch FROM {schema}.clock() - since)::float8 AS age,
       coalesce(extract(epoch FROM {schema}.clock() - lane_since), 0)::float8 AS lane_age, longest,
       job_id, job_since, job_lock
FROM {schema}.measure_waiting()
"""
LANES = "SELECT state, lanes, more FROM {schema}.measure_lanes()"
WORKERS = "SELECT state, workers, schedules FROM {schema}.measure_workers()"
APPLIED = "SELECT version_num FROM {schema}.schema_version"
SERVER = """
SELECT coalesce((
           SELECT extract(epoch FROM age) FROM {schema}.open_transactions LIMIT 1
       ), 0)::float8,
       pg_notification_queue_usage()
"""
TROUBLES = """
SELECT 'inturn_unknown_tasks', queue, count(*) FROM {schema}.unknown_tasks GROUP BY queue
UNION ALL
SELECT 'inturn_jobs_behind_failed', queue, count(*) FROM {schema}.failed_parents GROUP BY queue
UNION ALL
SELECT 'inturn_forgotten_batches', NULL, count(*) FROM {schema}.forgotten_batches
UNION ALL
SELECT 'inturn_repairs', NULL, (SELECT count(*) FROM {schema}.repaired_lanes)
    + (SELECT count(*) FROM {schema}.repaired_limits)
"""
DEAD_ROWS = """
SELECT relname::text, n_dead_tup FROM pg_stat_user_tables
WHERE schemaname = %s AND relname IN ('jobs', 'lanes', 'workers', 'schedules')
"""
ALWAYS = ("live", "blocked", "late")  # states of workers, even if no worker is in one of them


class QueueMeasure(NamedTuple):
    """A row of queue_status, and for how long the oldest job that could start has been due."""

    columns: dict[str, Any]
    runnable_age: float


class WaitingMeasure(NamedTuple):
    """The waiting jobs of a queue, with ages in seconds.

    `job_id` is the job that has waited the longest for its limit, or in a lane that is not stopped.
    `job_since` is when it became due, and `job_lock` is its lane.
    """

    queue: str
    age: float
    lane_age: float
    longest: int
    job_id: int | None
    job_since: datetime | None
    job_lock: str | None


class TroubleMeasure(NamedTuple):
    """A count of problems that only a person can end."""

    metric: str
    queue: str | None  # None: it is not about a queue
    found: int


class LaneMeasure(NamedTuple):
    """How many lanes are in a state. `more`: there may be more."""

    state: str
    lanes: int
    more: bool


class WorkersMeasure(NamedTuple):
    """How many workers are in each state, and which schedules are in the code of live workers."""

    states: dict[str, int]
    live_schedules: frozenset[str]


class ServerMeasure(NamedTuple):
    """The server's own statistics."""

    oldest_transaction: float
    notify_usage: float


def measure_queues() -> Operation[list[QueueMeasure]]:
    """Return the rows of queue_status."""
    rows = yield Statement(QUEUES)
    return [QueueMeasure(columns, age or 0.0) for columns, age in rows]


def measure_waiting() -> Operation[list[WaitingMeasure]]:
    """Return the measures of each queue with waiting jobs."""
    rows = yield Statement(WAITING)
    return [WaitingMeasure(*row) for row in rows]


def measure_lanes() -> Operation[list[LaneMeasure]]:
    """Return how many lanes are in each state."""
    rows = yield Statement(LANES)
    return [LaneMeasure(*row) for row in rows]


def measure_workers() -> Operation[WorkersMeasure]:
    """Return how many workers are in each state."""
    return sum_workers((yield Statement(WORKERS)))


def sum_workers(rows: Sequence[Sequence[Any]]) -> WorkersMeasure:
    """Fold rows of measure_workers: a state, its number of workers, and their schedules."""
    states = dict.fromkeys(ALWAYS, 0) | {state: count for state, count, _ in rows}
    live = (name for state, _, names in rows if state != "late" for name in names)
    return WorkersMeasure(states, frozenset(live))


def measure_troubles() -> Operation[list[TroubleMeasure]]:
    """Return the problems that only a person can end, by metric and queue."""
    rows = yield Statement(TROUBLES)
    return [TroubleMeasure(*row) for row in rows]


def get_revision(schema: str) -> Operation[int]:
    """Return the revision of the schema, 0 if nothing was ever migrated here."""
    ((migrated,),) = yield Statement(IS_MIGRATED, [schema])
    rows = (yield Statement(APPLIED)) if migrated else ()
    return int(rows[0][0]) if rows else 0


def measure_server() -> Operation[ServerMeasure]:
    """Return the server's own statistics."""
    (row,) = yield Statement(SERVER)
    return ServerMeasure(*row)


def count_dead_rows(schema: str) -> Operation[dict[str, int]]:
    """Return the server's estimate of deleted rows not yet vacuumed, by table."""
    rows = yield Statement(DEAD_ROWS, [schema])
    return {table: count for table, count in rows}
