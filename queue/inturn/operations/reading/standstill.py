"""Stuck work and its causes: everything the doctor judges, in one statement."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

from inturn.operations import Operation, Statement
from inturn.operations.changes.lanes import LongHold
from inturn.operations.engine.batches import FORGOTTEN, ForgottenBatch
from inturn.operations.engine.schedules import StoredSchedule
from inturn.operations.reading.failures import (
    PARENTS,
    RECENT,
    RECENT_WITHOUT,
    SHARED,
    SHARED_WITHOUT,
    FailedParent,
    RecentFailures,
    SharedError,
)
from inturn.operations.reading.measures import WAITING, WORKERS, WaitingMeasure, sum_workers

MOST = 1000
# The session's settings determine how JSON shows an interval.
HELD = """
SELECT lock, job_id, task, since, extract(epoch FROM usual)::float8 AS usual, limit_key
FROM {schema}.held_for_long(%s)
"""
# Only these can be ahead of their time.
LATER = """
SELECT task, periodic_id, cron, tz, since, last_instant, last_job_id
FROM {schema}.list_schedules(%s) WHERE last_instant > {schema}.clock()
"""
BEGIN: LiteralString = "SELECT (SELECT coalesce(jsonb_agg(one), '[]') FROM ("
NEXT: LiteralString = ") AS one), (SELECT coalesce(jsonb_agg(one), '[]') FROM ("
END: LiteralString = ") AS one)"
PARTS = (WAITING, HELD, PARENTS, FORGOTTEN, WORKERS, LATER)
WITH_ERRORS: LiteralString = BEGIN + NEXT.join((*PARTS, SHARED, RECENT)) + END
WITHOUT_ERRORS: LiteralString = BEGIN + NEXT.join((*PARTS, SHARED_WITHOUT, RECENT_WITHOUT)) + END


@dataclass(frozen=True, slots=True)
class Standstill:
    """Waiting, held and failing work."""

    schema: str
    waiting: list[WaitingMeasure]
    held: list[LongHold]
    parents: list[FailedParent]
    batches: list[ForgottenBatch]
    live_schedules: frozenset[str]
    later_schedules: list[StoredSchedule]  # whose last instant is in the future
    shared: list[SharedError]
    recent: list[RecentFailures]


def find_standstill(schema: str, *, with_errors: bool) -> Operation[Standstill]:
    """Return what the doctor judges."""
    (row,) = yield Statement(WITH_ERRORS if with_errors else WITHOUT_ERRORS, [MOST, MOST])
    waiting, held, parents, batches, workers, later, shared, recent = row
    return Standstill(
        schema=schema,
        waiting=[WaitingMeasure(**each) for each in _read_times(waiting, "job_since")],
        held=[_make_hold(**each) for each in _read_times(held, "since")],
        parents=[FailedParent(**each) for each in _read_times(parents, "created_at")],
        batches=[ForgottenBatch(**each) for each in _read_times(batches, "opened_at")],
        live_schedules=sum_workers(
            [(each["state"], each["workers"], each["schedules"]) for each in workers]
        ).live_schedules,
        later_schedules=[
            StoredSchedule(**each) for each in _read_times(later, "since", "last_instant")
        ],
        shared=[SharedError(**each) for each in shared],
        recent=[RecentFailures(**each) for each in _read_times(recent, "first_at", "last_at")],
    )


def _make_hold(usual: float | None, **fields: Any) -> LongHold:
    return LongHold(usual=None if usual is None else timedelta(seconds=usual), **fields)


def _read_times(rows: Sequence[dict[str, Any]], *names: str) -> Iterator[dict[str, Any]]:
    """Yield the rows with these columns as times, which are text in JSON."""
    for row in rows:
        yield row | {
            name: None if row[name] is None else datetime.fromisoformat(row[name]) for name in names
        }
