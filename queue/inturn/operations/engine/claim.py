"""Claiming jobs, and how long a worker that found none may sleep."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from inturn.arguments import decode, to_json
from inturn.model import BatchCounts, Job
from inturn.operations import Operation, Rows, Statement, ask, read_one

# The beginning of statements that return a `Job`, in its order. The database counts attempts that
# were started. People count those before this one: `attempts - 1`.
job_row: LiteralString = (
    "SELECT id, claim_id::text, fence, task, queue, lock, priority, attempts - 1, scheduled_at, "
    "args::text, timeout, "
    "CASE WHEN NOT was_attempted THEN expires_at::timestamptz - started_at END, "
    "batch_id, CASE WHEN batch_id IS NOT NULL THEN {schema}.batch_counts(id, batch_id) END, locks, "
    "headers::text, date_part('epoch'::text, started_at - coalesce(scheduled_at, created_at)) "
)
CLAIM = (
    job_row + ", was_attempted, current_setting('inturn.lacking', true), "
    "current_setting('inturn.turns', true) "
    "FROM {schema}.claim(%s, %s::text[], %s, %s, %s, %s::jsonb, %s, %s::jsonb, %s)"
)
CLAIM_FURTHER = job_row + "FROM {schema}.claim_further(%s, %s::text[], %s::int[], %s::bigint[], %s)"
JOBS_OF_WORKER = job_row + "FROM {schema}.jobs_of_worker(%s)"
CLAIMS_OF_WORKER = "SELECT id, claim_id::text FROM {schema}.jobs_of_worker(%s)"
NEXT_WAKE = (
    "SELECT delay, notified, horizon::text, newest "
    "FROM {schema}.next_wake(%s::text[], %s::text::xid8)"
)
SET_AWAKE = "SELECT {schema}.set_awake(%s, %s)"

Queues = list[str] | None  # None: all
# Where to begin in a lane: [priority, id, final], as in line_from.sql.
Floor = tuple[int, int, int]
Floors = Mapping[str, Sequence[Floor]]
_read_json = json.JSONDecoder().decode  # json.loads would check for a BOM


class Wake(NamedTuple):
    """The result of next_wake.sql."""

    delay: timedelta | None
    notified: bool
    horizon: str
    newest: int


@dataclass(eq=False)
class Turns:
    """What a claim tells the worker's next one: mainly where the turns of the groups continue."""

    text: str | None = None  # as claim.sql writes it
    need_slots: bool = False  # the last claim left jobs that it may start only if they can begin


def claim(
    worker_id: UUID,
    queues: Queues,
    limit: int,
    patient: bool,
    slots: int,
    turns: Turns | None = None,
    since: int | None = None,
    floors: Floors | None = None,
    horizon: str | None = None,
    again: set[int] | None = None,
) -> Operation[list[Job]]:
    """Start up to `limit` jobs and return them, best first.

    Only `slots` of them can run now, and jobs with a limit are started only if they can. With
    `since`, it looks only at jobs with higher ids, or that came back since. The search for the next
    jobs of lanes begins at the `floors`, if `horizon` is of the same session. Jobs that had an
    attempt before are added to `again`.
    """
    turns = turns or Turns()
    asked_at = time.monotonic()
    parameters = [worker_id, queues, limit, patient, slots, turns.text, since]
    rows = yield Statement(CLAIM, [*parameters, to_json(floors) if floors else None, horizon])
    if rows and rows[0][-1]:  # else no job with a group waited
        turns.text = rows[0][-1]
    turns.need_slots = not rows or bool(rows[0][-1] or rows[0][-2])
    if again is not None:
        again.update(row[0] for row in rows if row[-3])
    return to_jobs(rows, asked_at)


def claim_further(
    worker_id: UUID, marks: Mapping[tuple[str, int], int], limit: int
) -> Operation[list[Job]]:
    """Start free jobs of each queue and priority in `marks`, with ids above its mark."""
    queues = [queue for queue, _ in marks]
    priorities = [priority for _, priority in marks]
    parameters = [worker_id, queues, priorities, list(marks.values()), limit]
    asked_at = time.monotonic()
    return to_jobs((yield Statement(CLAIM_FURTHER, parameters)), asked_at)


def list_claims_of_worker(worker_id: UUID) -> Operation[list[tuple[int, str]]]:
    """Return the id and the claim of each job that the worker is doing."""
    return list((yield Statement(CLAIMS_OF_WORKER, [worker_id])))


def list_jobs_of_worker(worker_id: UUID) -> Operation[list[Job]]:
    asked_at = time.monotonic()
    return to_jobs((yield Statement(JOBS_OF_WORKER, [worker_id])), asked_at)


def next_wake(queues: Queues, horizon: str | None) -> Operation[Wake]:
    """Return how long a worker of these queues may sleep."""
    return read_one(Wake, NEXT_WAKE, queues, horizon)


def set_awake(worker_id: UUID, awake: bool) -> Operation[bool]:
    """Record whether the worker finds jobs without a notification.

    Return False if its row is locked, so that nothing was recorded.
    """
    return ask(bool, SET_AWAKE, worker_id, awake)


def to_jobs(rows: Rows, asked_at: float, *, handed_over: bool = False) -> list[Job]:
    """Return a Job for each row, the best first. Unreadable arguments do not affect other jobs.

    `asked_at` is the monotonic time before the call. The server's clock was not behind it then, so
    no job starts after it has expired.
    """
    if not rows:
        return []
    # Here, since a server would have to look for the operators in the first claim of each session.
    rows = sorted(rows, key=itemgetter(0))
    rows.sort(key=itemgetter(6), reverse=True)
    kwargs = decode_all([row[9] for row in rows])
    return [
        Job._make(
            (
                *row[:9],
                each,
                row[10],
                row[11] and asked_at + row[11].total_seconds(),
                row[12],
                row[13] and BatchCounts(row[12], *row[13]),
                row[14],
                row[15] and decode(row[15]),
                row[16],
                handed_over,
            )
        )
        for row, each in zip(rows, kwargs, strict=True)
    ]


def decode_all(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the result of `decode` for each text, at a fraction of the cost of separate calls.

    Each text is JSON, since the server stored it as jsonb, but Python may be unable to read it.
    """
    try:
        values: list[dict[str, Any]] = _read_json(f"[{','.join(texts)}]")
        if {type(value) for value in values} <= {dict}:
            return values
    except (ValueError, RecursionError):
        pass
    return [decode(text) for text in texts]  # one by one, so a bad text spoils only itself
