"""What a worker does with jobs."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from inturn.errors import DatabaseUnavailable
from inturn.model import Again, Ended, Job, Status
from inturn.operations import Operation, Rows, Statement, decode_column, unless_all

# A `Job`, of a row of `jobs`. The database counts the attempts that were started, people those before this one: `attempts - 1`.
_JOB = "SELECT id, claim_id::text, fence, task, queue, lock, priority, attempts - 1, scheduled_at, args::text, timeout "
CLAIM = _JOB + "FROM {schema}.claim(%s, %s::text[], %s, %s) ORDER BY priority DESC, id"
CLAIM_FURTHER = (
    _JOB
    + "FROM {schema}.claim_further(%s, %s::text[], %s::int[], %s::bigint[], %s) ORDER BY priority DESC, id"
)
OWNED = _JOB + "FROM {schema}.jobs_of_worker(%s)"
OWNED_CLAIMS = "SELECT id, claim_id::text FROM {schema}.jobs_of_worker(%s)"
# Arrays in binary (%b): each element of one in text costs a microsecond, for each of the jobs that have ended.
FINISH = """
SELECT finished_id, busy_id, (next).id, (next).claim_id::text, (next).fence, (next).task, (next).queue, (next).lock,
       (next).priority, (next).attempts - 1, (next).scheduled_at, (next).args::text, (next).timeout
FROM {schema}.finish(%s, %s::text[], %s, %b::bigint[], %b::text[]::uuid[], %b::text[]::{schema}.job_status[], %s::jsonb[],
                     %b::text[]::jsonb[], %s::text[]::{schema}.job_status[])
"""
RETRY = """
SELECT id, busy FROM {schema}.retry(%s::bigint[], %s::text[]::uuid[], %s::interval[], %s::jsonb[],
                                    %s::timestamptz[], %s::int[], %s::text[], %s::text[], %s::boolean[])
"""
PUT_BACK = "SELECT {schema}.put_back(%s::bigint[], %s::text[]::uuid[])"
UNCLEAR_SECONDS = 5.0  # for which an open transaction may leave it unclear whether a job has ended
HAS_ENDED = "SELECT {schema}.has_ended(%s, %s::uuid, %s)"
ABORT_REQUESTS = "SELECT id FROM {schema}.abort_requests(%s)"
NEXT_WAKE = "SELECT delay, notified, horizon::text FROM {schema}.next_wake(%s::text[], %s::text::xid8)"
SET_AWAKE = "SELECT {schema}.set_awake(%s, %s)"

Queues = Sequence[str] | None


class Wake(NamedTuple):
    """What next_wake.sql answers."""

    delay: timedelta | None
    told: bool
    horizon: str


class Finished(NamedTuple):
    """By id. Busy ones are ours still and have not ended: somebody's open transaction is in the way, so report them again.
    What is missing belongs to somebody else now."""

    accepted: set[int]
    next: list[Job]  # handed over by the lanes of the accepted ones
    busy: set[int]


class Retried(NamedTuple):
    """As `Finished`."""

    accepted: set[int]
    busy: set[int]


def claim(worker_id: UUID, queues: Queues, limit: int, patient: bool) -> Operation[list[Job]]:
    return _jobs((yield Statement(CLAIM, [worker_id, _list(queues), limit, patient])))


def claim_further(
    worker_id: UUID, marks: Mapping[tuple[str, int], int], limit: int
) -> Operation[list[Job]]:
    """More free jobs of these queues and priorities, behind these ids."""
    queues = [queue for queue, _ in marks]
    priorities = [priority for _, priority in marks]
    return _jobs(
        (
            yield Statement(
                CLAIM_FURTHER, [worker_id, queues, priorities, list(marks.values()), limit]
            )
        )
    )


def owned_claims(worker_id: UUID) -> Operation[list[tuple[int, str]]]:
    """The jobs that are being done by this worker, by id and claim."""
    rows = yield Statement(OWNED_CLAIMS, [worker_id])
    return [(id, claim_id) for id, claim_id in rows]


def owned(worker_id: UUID) -> Operation[list[Job]]:
    """The jobs that are being done by this worker."""
    return _jobs((yield Statement(OWNED, [worker_id])))


def finish(
    worker_id: UUID | None,
    queues: Queues,
    want: int,
    ended: Sequence[Ended],
    forget: Sequence[Status] = (),
) -> Operation[Finished]:
    """What ends with a status of `forget` leaves no trace in the history."""
    rows = yield Statement(
        FINISH,
        [
            worker_id,
            _list(queues),
            want,
            [outcome.job.id for outcome in ended],
            [outcome.job.claim_id for outcome in ended],
            [outcome.status.value for outcome in ended],
            [_error(outcome) for outcome in ended],
            _results(ended),
            [status.value for status in forget],
        ],
    )
    return Finished(
        {row[0] for row in rows if row[0] is not None},
        _jobs([row[2:] for row in rows if row[2] is not None]),
        {row[1] for row in rows if row[1] is not None},
    )


def retry(again: Sequence[Again]) -> Operation[Retried]:
    rows = yield Statement(
        RETRY,
        [
            [outcome.job.id for outcome in again],
            [outcome.job.claim_id for outcome in again],
            [outcome.delay for outcome in again],
            [_error(outcome) for outcome in again],
            unless_all(None, (outcome.at for outcome in again)),
            unless_all(None, (outcome.priority for outcome in again)),
            unless_all(None, (outcome.queue for outcome in again)),
            unless_all(None, (outcome.lock for outcome in again)),
            unless_all(False, (outcome.uncharged for outcome in again)),
        ],
    )
    return Retried({id for id, busy in rows if not busy}, {id for id, busy in rows if busy})


def has_ended(job: Job) -> Operation[bool]:
    """Whether this attempt has ended the job itself; DatabaseUnavailable if somebody's open transaction leaves that unclear."""
    give_up_at = time.monotonic() + UNCLEAR_SECONDS
    while time.monotonic() < give_up_at:  # each call waits a moment for a COMMIT that is under way
        ((ended,),) = yield Statement(HAS_ENDED, [job.id, job.claim_id, job.fence])
        if ended is not None:
            return bool(ended)
    raise DatabaseUnavailable(
        f"Somebody's open transaction has job {job.id} locked, so it is unclear whether it has ended",
        connection_lost=False,
        outcome_unknown=True,
    )


def put_back(jobs: Sequence[Job]) -> Operation[set[int]]:
    """Jobs that were claimed and not begun are anybody's again; but not those returned, which somebody's open transaction keeps."""
    rows = yield Statement(PUT_BACK, [[job.id for job in jobs], [job.claim_id for job in jobs]])
    return {id for (id,) in rows}


def abort_requests(worker_id: UUID) -> Operation[list[int]]:
    """The jobs of this worker that it is asked to end."""
    rows = yield Statement(ABORT_REQUESTS, [worker_id])
    return [id for (id,) in rows]


def next_wake(queues: Queues, horizon: str | None) -> Operation[Wake]:
    ((delay, told, horizon),) = yield Statement(NEXT_WAKE, [_list(queues), horizon])
    return Wake(delay, told, horizon)


def set_awake(worker_id: UUID, awake: bool) -> Operation[bool]:
    """Whether the worker finds jobs without being told. False: somebody has its row locked, so it counts as it did before."""
    ((written,),) = yield Statement(SET_AWAKE, [worker_id, awake])
    return bool(written)


def _jobs(rows: Rows) -> list[Job]:
    """Each by itself: arguments that cannot be read are no reason to lose sight of the other jobs."""
    return [Job._make(decode_column(row, 9)) for row in rows]


def _results(ended: Sequence[Ended]) -> list[str | None] | None:
    """None if nothing was returned, as most often."""
    results = [outcome.result for outcome in ended]
    return results if any(results) else None


def _error(outcome: Ended | Again) -> Any:
    return (
        None
        if outcome.error is None
        else Jsonb({"attempt": outcome.job.attempts + 1, "error": outcome.error})
    )


def _list(queues: Queues) -> list[str] | None:
    return None if queues is None else list(queues)
