"""Numbers for metrics. No statement counts everything."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NamedTuple

from inturn.operations import Operation, Statement, ask, read_one
from inturn.operations.engine.batches import FORGOTTEN, ForgottenBatch
from inturn.operations.engine.maintenance import IS_MIGRATED, VERSION
from inturn.operations.engine.schedules import LIST as SCHEDULES
from inturn.operations.engine.schedules import StoredSchedule
from inturn.operations.reading.failures import PARENTS, FailedParent
from inturn.operations.reading.parts import MOST

WAITING = """
SELECT queue, since, lane_since, longest, job_id, job_since, job_lock
FROM {schema}.measure_waiting()
"""
WORKERS = """
SELECT jsonb_build_array(state, workers, schedules) AS item FROM {schema}.measure_workers()
"""
SERVER = """
SELECT coalesce((
           SELECT extract(epoch FROM age) FROM {schema}.open_transactions LIMIT 1
       ), 0)::float8,
       coalesce((
           SELECT max(transactions) FROM {schema}.open_transactions WHERE age IS NULL
       ), 0)::float8,
       pg_notification_queue_usage()
"""
REPAIRS = """
SELECT (SELECT count(*) FROM {schema}.repaired_lanes)
    + (SELECT count(*) FROM {schema}.repaired_limits)
"""
DEAD_ROWS = """
SELECT relname::text, n_dead_tup FROM pg_stat_user_tables
WHERE schemaname = %s AND relname IN ('jobs', 'lanes', 'workers', 'schedules')
"""
# The states of workers, even if no worker is in one of them.
ALWAYS = ("live", "stopping", "blocked", "late")


@dataclass(frozen=True, slots=True)
class WaitingMeasure:
    """The waiting jobs of a queue: since when the oldest is due, of all and of those in a lane.

    `longest` is how many wait in its longest lane. `job_id` is the job that has waited the longest
    for its limit, or in a lane that is not stopped. `job_since` is when it became due, and
    `job_lock` is its lane.
    """

    queue: str
    since: datetime
    lane_since: datetime | None
    longest: int
    job_id: int | None
    job_since: datetime | None
    job_lock: str | None


class ServerMeasure(NamedTuple):
    """The server's own statistics."""

    oldest_transaction: float
    standby_transactions: float  # since the oldest query of a standby with hot_standby_feedback
    notify_usage: float


@dataclass(frozen=True, slots=True)
class WorkerMeasures:
    """How many workers there are, and the schedules."""

    workers: Annotated[list[tuple[str, int, list[str]]], WORKERS]
    schedules: Annotated[list[StoredSchedule], SCHEDULES, MOST]

    @property
    def worker_states(self) -> dict[str, int]:
        return dict.fromkeys(ALWAYS, 0) | {state: count for state, count, _ in self.workers}

    @property
    def live_schedules(self) -> set[str]:
        """The schedules in the code of live workers."""
        return {name for state, _, names in self.workers if state != "late" for name in names}


@dataclass(frozen=True, slots=True)
class Troubles(WorkerMeasures):
    """Also what only a person can end."""

    parents: Annotated[list[FailedParent], PARENTS]
    batches: Annotated[list[ForgottenBatch], FORGOTTEN]


@dataclass(frozen=True, slots=True)
class Measures(Troubles):
    """Also the waiting jobs: what metrics and the doctor read beside the situation."""

    waiting: Annotated[list[WaitingMeasure], WAITING]


def count_repairs() -> Operation[int]:
    """Return how many lanes and limits the reconciler repaired in the last day."""
    return ask(int, REPAIRS)


def get_revision(schema: str) -> Operation[int]:
    """Return the revision of the schema, 0 if nothing was ever migrated here."""
    rows = (yield Statement(VERSION)) if (yield from ask(bool, IS_MIGRATED, schema)) else ()
    return int(rows[0][0]) if rows else 0


def measure_server() -> Operation[ServerMeasure]:
    return read_one(ServerMeasure, SERVER)


def count_dead_rows(schema: str) -> Operation[dict[str, int]]:
    """Return the server's estimate of deleted rows not yet vacuumed, by table."""
    return dict((yield Statement(DEAD_ROWS, [schema])))
