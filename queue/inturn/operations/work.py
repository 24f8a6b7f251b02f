"""What a worker does with jobs."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from inturn.model import Again, Ended, Job
from inturn.operations import Operation, Rows, Statement, unless_all

# The database counts the attempts that were started, people those before this one: hence `attempts - 1`.
CLAIM = """
SELECT id, claim_id::text, fence, task, queue, lock, priority, attempts - 1, scheduled_at, args
FROM {schema}.claim(%s, %s::text[], %s) ORDER BY priority DESC, id
"""
OWNED = """
SELECT id, claim_id::text, fence, task, queue, lock, priority, attempts - 1, scheduled_at, args FROM {schema}.owned(%s)
"""
FINISH = """
SELECT finished_id, (next).id, (next).claim_id::text, (next).fence, (next).task, (next).queue, (next).lock, (next).priority,
       (next).attempts - 1, (next).scheduled_at, (next).args
FROM {schema}.finish(%s, %s::text[], %s, %s::bigint[], %s::text[]::uuid[], %s::text[]::{schema}.job_status[], %s::jsonb[])
"""
RETRY = """
SELECT id FROM {schema}.retry(%s::bigint[], %s::text[]::uuid[], %s::interval[], %s::jsonb[],
                              %s::timestamptz[], %s::int[], %s::text[], %s::text[], %s::boolean[])
"""
PUT_BACK = "SELECT {schema}.put_back(%s::bigint[], %s::text[]::uuid[])"
ABORT_REQUESTS = "SELECT id FROM {schema}.abort_requests(%s)"
NEXT_WAKE = "SELECT {schema}.next_wake(%s::text[])"

Queues = Sequence[str] | None


class Finished(NamedTuple):
    accepted: set[int]  # ids; what is missing belongs to somebody else now
    next: list[Job]  # handed over by the lanes of the accepted ones


def claim(worker_id: UUID, queues: Queues, limit: int) -> Operation[list[Job]]:
    return _jobs((yield Statement(CLAIM, [worker_id, _list(queues), limit])))


def owned(worker_id: UUID) -> Operation[list[Job]]:
    return _jobs((yield Statement(OWNED, [worker_id])))


def finish(worker_id: UUID, queues: Queues, want: int, ended: Sequence[Ended]) -> Operation[Finished]:
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
        ],
    )
    return Finished({row[0] for row in rows if row[0] is not None}, _jobs([row[1:] for row in rows if row[0] is None]))


def retry(again: Sequence[Again]) -> Operation[set[int]]:
    """The ids that were still ours."""
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
    return {id for (id,) in rows}


def put_back(jobs: Sequence[Job]) -> Operation[None]:
    """Jobs that were claimed and not begun are anybody's again."""
    yield Statement(PUT_BACK, [[job.id for job in jobs], [job.claim_id for job in jobs]])


def abort_requests(worker_id: UUID) -> Operation[list[int]]:
    """The jobs of this worker that it is asked to end."""
    rows = yield Statement(ABORT_REQUESTS, [worker_id])
    return [id for (id,) in rows]


def next_wake(queues: Queues) -> Operation[timedelta | None]:
    """How long there is surely nothing to do; None: nothing is scheduled."""
    ((delay,),) = yield Statement(NEXT_WAKE, [_list(queues)])
    return None if delay is None else timedelta(seconds=delay.total_seconds())


def _jobs(rows: Rows) -> list[Job]:
    return list(map(Job._make, rows))


def _error(outcome: Ended | Again) -> Any:
    return None if outcome.error is None else Jsonb({"attempt": outcome.job.attempts + 1, "error": outcome.error})


def _list(queues: Queues) -> list[str] | None:
    return None if queues is None else list(queues)
