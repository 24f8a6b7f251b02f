"""How is the queue? The answer for the doctor, the dashboard, `queue top` and metrics."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from inturn.operations import Operation
from inturn.operations.changes.lanes import PAUSED as PAUSED_LANES
from inturn.operations.changes.lanes import PausedLane
from inturn.operations.changes.pauses import (
    PAUSED_QUEUES,
    PAUSED_TASKS,
    PausedQueue,
    PausedTask,
)
from inturn.operations.engine.maintenance import NOW, READ_ONLY, SERVED, VERSION, judge_schema
from inturn.operations.engine.workers import LIST_IN_JSON, QUEUES, QueueStatus, WorkerStatus
from inturn.operations.reading.parts import MOST, SCHEMA, read_parts

UNKNOWN = "SELECT jsonb_build_array(queue, task) AS item FROM {schema}.unknown_tasks"
LANES = """
SELECT json_object_agg(state, json_build_array(lanes, more)) FROM {schema}.measure_lanes()
"""
HALTED = "SELECT jsonb_build_array(lock, stopped_at) AS item FROM {schema}.halted_lanes"
MAY_READ_ERRORS = """
SELECT has_column_privilege(to_regclass(quote_ident(%s) || '.all_jobs'), 'errors', 'SELECT')
"""
# The size of a table tells whether it ever had a row, without reading any.
IS_NEW = """
SELECT NOT EXISTS (
    SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = %s AND (relname = 'jobs' OR relname LIKE 'finished\\_jobs\\_%%')
        AND relkind = 'r' AND pg_relation_size(pg_class.oid) > 0)
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What waits and runs, and what is paused: cheap enough for metrics."""

    now: Annotated[datetime, NOW]
    queues: Annotated[list[QueueStatus], QUEUES]
    unknown_tasks: Annotated[list[tuple[str, str]], UNKNOWN]
    lanes: Annotated[dict[str, tuple[int, bool]], LANES]  # by state; True: there may be more
    paused_queues: Annotated[list[PausedQueue], PAUSED_QUEUES]
    paused_tasks: Annotated[list[PausedTask], PAUSED_TASKS]


@dataclass(frozen=True, slots=True)
class Situation(Load):
    """The state of the queue: counts, and what keeps work from starting.

    Every page of the dashboard needs it, and most checks of the doctor.
    """

    schema: Annotated[str, "SELECT %s::text", SCHEMA]
    revision: Annotated[str | None, VERSION]
    served: Annotated[list[str], SERVED]
    workers: Annotated[list[WorkerStatus], LIST_IN_JSON, MOST]
    halted: Annotated[list[tuple[str, datetime]], HALTED]
    paused: Annotated[list[PausedLane], PAUSED_LANES]
    may_read_errors: Annotated[bool, MAY_READ_ERRORS, SCHEMA]
    is_new: Annotated[bool, IS_NEW, SCHEMA]  # no job was ever stored
    read_only: Annotated[str | None, READ_ONLY]  # why it accepts no writes

    @property
    def mismatch(self) -> tuple[str, str] | None:
        """Why the schema does not match, and the remedy."""
        return judge_schema(self.schema, self.revision, self.served)

    @property
    def has_live_worker(self) -> bool:
        return any(worker.takes_jobs() for worker in self.workers)

    @property
    def has_work(self) -> bool:
        """True if a worker would have something to do now."""
        return any(
            queue.runnable or queue.blocked or queue.limited or queue.claimed or queue.doing
            for queue in self.queues
        )


def get_situation(schema: str) -> Operation[Situation]:
    return (yield from read_parts(Situation, schema))
