"""Ending attempts: finish, retry, put back, and the outcome of a lost COMMIT."""

import time
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from inturn.arguments import to_json
from inturn.errors import DatabaseUnavailable
from inturn.model import Again, Ended, Job, Status
from inturn.operations import Operation, Statement, read, read_one, unless_all
from inturn.operations.engine.claim import Floors, Queues, job_row, to_jobs

# Arrays in binary (%b): in text, each element costs a microsecond, for each of the ended jobs.
FINISH = (
    job_row + ", finished_id, busy_id FROM {schema}.finish("
    "%s, %s::text[], %s, %b::bigint[], %b::text[]::uuid[], %b::text[]::{schema}.job_status[], "
    "%s::jsonb[], %b::text[]::jsonb[], %s::text[]::{schema}.job_status[], %s::jsonb, %s) AS done "
    "CROSS JOIN LATERAL (SELECT (done.next).*) AS job"
)
RETRY = """
SELECT id, busy FROM {schema}.retry(
    %s::bigint[], %s::text[]::uuid[], %s::interval[], %s::jsonb[],
    %s::timestamptz[], %s::int[], %s::text[], %s::text[], %s::boolean[])
"""
PUT_BACK = "SELECT {schema}.put_back(%s::bigint[], %s::text[]::uuid[])"
UNCLEAR_SECONDS = 5.0  # how long an open transaction may leave it unclear whether a job has ended
FINAL_IDS = "SELECT final, noted, horizon, reads_much FROM {schema}.final_ids(%s, %s, %s)"
HAS_ENDED = "SELECT {schema}.has_ended(%s, %s::uuid, %s)"
ABORT_REQUESTS = "SELECT id FROM {schema}.abort_requests(%s, %s)"


class FinalIds(NamedTuple):
    """The result of final_ids.sql."""

    final: int | None
    noted: int | None
    horizon: str
    reads_much: bool = False


class Finished(NamedTuple):
    """The outcomes of ended jobs, by id.

    Busy jobs are still ours and have not ended, because an open transaction blocks them: report
    them again. Missing jobs have already been taken over.
    """

    accepted: set[int]
    next: list[Job]  # handed over by the lanes of the accepted jobs
    busy: set[int]


class Retried(NamedTuple):
    """The outcomes of jobs to retry, as in `Finished`."""

    accepted: set[int]
    busy: set[int]


def finish(
    worker_id: UUID | None,
    queues: Queues,
    want: int,
    ended: Sequence[Ended],
    forget: Sequence[Status] = (),
    floors: Floors | None = None,
    horizon: str | None = None,
) -> Operation[Finished]:
    """Move ended jobs to the history. Jobs with a status in `forget` leave no trace there.

    The search for the next jobs begins at the `floors`, if `horizon` is of the same session.
    """
    results = [outcome.result for outcome in ended]
    asked_at = time.monotonic()
    rows = yield Statement(
        FINISH,
        [
            worker_id,
            queues,
            want,
            [outcome.job.id for outcome in ended],
            [outcome.job.claim_id for outcome in ended],
            [str(outcome.status) for outcome in ended],
            _errors(ended),
            results if any(results) else None,  # None is the usual case
            [status.value for status in forget],
            to_json(floors) if floors else None,
            horizon,
        ],
    )
    next_rows = [row for row in rows if row[0] is not None]
    return Finished(
        {row[-2] for row in rows if row[-2] is not None},
        to_jobs(next_rows, asked_at, handed_over=True),
        {row[-1] for row in rows if row[-1] is not None},
    )


def retry(again: Sequence[Again]) -> Operation[Retried]:
    """Let running jobs wait for their next attempts."""
    rows = yield Statement(
        RETRY,
        [
            [outcome.job.id for outcome in again],
            [outcome.job.claim_id for outcome in again],
            [outcome.delay for outcome in again],
            _errors(again),
            unless_all(None, (outcome.at for outcome in again)),
            unless_all(None, (outcome.priority for outcome in again)),
            unless_all(None, (outcome.queue for outcome in again)),
            unless_all(None, (outcome.lock for outcome in again)),
            unless_all(False, (outcome.uncharged for outcome in again)),
        ],
    )
    return Retried({id for id, busy in rows if not busy}, {id for id, busy in rows if busy})


def has_ended(job: Job) -> Operation[bool]:
    """Return True if this attempt has ended the job in its own transaction.

    Raise DatabaseUnavailable if an open transaction leaves that unclear.
    """
    give_up_at = time.monotonic() + UNCLEAR_SECONDS
    while time.monotonic() < give_up_at:  # each call waits a moment for a COMMIT that is under way
        ((ended,),) = yield Statement(HAS_ENDED, [job.id, job.claim_id, job.fence])
        if ended is not None:
            return bool(ended)
    raise DatabaseUnavailable(
        f"An open transaction has job {job.id} locked, so it is unclear whether the job has ended",
        connection_lost=False,
        outcome_unknown=True,
    )


def put_back(jobs: Sequence[Job]) -> Operation[set[int]]:
    """Give claimed jobs that have not started back to the queue.

    Return the jobs that an open transaction has locked. They are still ours.
    """
    rows = yield Statement(PUT_BACK, [[job.id for job in jobs], [job.claim_id for job in jobs]])
    return {id for (id,) in rows}


def final_ids(noted: int | None, horizon: str | None, *, patient: bool) -> Operation[FinalIds]:
    """Return up to which id all jobs are committed or never will be, if that is known by now."""
    return read_one(FinalIds, FINAL_IDS, noted, horizon, patient)


def list_abort_requests(worker_id: UUID, job_ids: list[int]) -> Operation[list[int]]:
    """Return those of this worker's jobs that it is asked to abort."""
    return read(int, ABORT_REQUESTS, worker_id, job_ids)


def _errors(outcomes: Sequence[Ended] | Sequence[Again]) -> list[str | None]:
    return [
        None if outcome.error is None else to_json({"error": outcome.error}) for outcome in outcomes
    ]
