"""Reads for `queue top` every two seconds. No statement counts everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from inturn.model import Lane, Reason
from inturn.operations import Operation, Statement, read, read_one
from inturn.operations.changes.lanes import GET_SOME

TROUBLED = """
SELECT lock, trouble, since, job_id, waiting FROM {schema}.list_troubled_lanes(%s, %s)
"""
LIMITED = "SELECT {schema}.limited_jobs(%s)"
REASONS = """
SELECT asked.id, found.reason, found.detail, found.unblock
FROM unnest(%s::bigint[]) WITH ORDINALITY AS asked(id, place)
CROSS JOIN LATERAL {schema}.explain(asked.id) WITH ORDINALITY
    AS found(reason, detail, unblock, number)
ORDER BY place, number
"""
COUNTS = "SELECT deferred, ended, failed FROM {schema}.measure_flow()"


@dataclass(frozen=True, slots=True)
class TroubledLane:
    """A lane that may need a person, or is in use.

    `trouble` is a state of a lane, or `stalled` (its worker is silent), `unserved` (no worker
    serves the queue of its next job), `unknown` (no worker knows its task) or `limited`. `job_id`
    is the job to ask about, if the lane need not have a row. `waiting` is at most 1,001.
    """

    lock: str
    trouble: str
    since: datetime
    job_id: int | None
    waiting: int


class Counts(NamedTuple):
    """How many jobs were stored and have left since the server started counting.

    `failed` counts the last minute, and at most 1,000.
    """

    deferred: int
    ended: int
    failed: int


def list_troubled_lanes(limit: int, trouble: str | None = None) -> Operation[list[TroubledLane]]:
    """Return stuck lanes, worst first, then lanes in use. `trouble` restricts them to one."""
    return read(TroubledLane, TROUBLED, limit, trouble)


def get_lanes(locks: Sequence[str]) -> Operation[dict[str, Lane]]:
    """Return the rows of those lanes that are in use or stopped."""
    rows = yield Statement(GET_SOME, [list(locks)])
    return {row[0]: Lane(*row) for row in rows}


def find_limited(limit: int) -> Operation[list[int]]:
    """Return a job of each key whose limit holds jobs."""
    return read(int, LIMITED, limit)


def explain_jobs(job_ids: Sequence[int]) -> Operation[dict[int, list[Reason]]]:
    """Return the reasons why each of these jobs is not running."""
    rows = yield Statement(REASONS, [list(job_ids)])
    reasons: dict[int, list[Reason]] = {}
    for job_id, *reason in rows:
        reasons.setdefault(job_id, []).append(Reason(*reason))
    return reasons


def get_counts() -> Operation[Counts]:
    """Return counts whose differences give the rates at which jobs are deferred and end."""
    return read_one(Counts, COUNTS)
