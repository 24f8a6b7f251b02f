"""Deferring jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from inturn.errors import AlreadyEnqueued, BadArgument
from inturn.model import NewJob, OnConflict, OnFailure, OnRetry
from inturn.operations import Operation, Rows, Statement, unless_all
from inturn.tasks.deferred import DeferredJob

DEFER_ONE = """
SELECT {schema}.defer_job(
    %s, %s::text::jsonb, %s, %s, %s, %s::timestamptz, %s::interval,
    %s::text::{schema}.retry_policy, %s::text::{schema}.failure_policy, %s::interval
)
"""
# Text in binary (%b): in text format, each array element would be searched for quotes.
_COLUMNS = """
    %b::text[], %b::text[]::jsonb[], %b::text[], %b::text[], %s::int[], %s::timestamptz[],
    %s::interval[],
    %s::text[]::{schema}.retry_policy[], %s::text[]::{schema}.failure_policy[],
    %b::text[], %s::text::{schema}.conflict_policy, %s::interval[]
"""
_FUNCTION: LiteralString = "{schema}.defer_jobs(" + _COLUMNS + ")"
DEFER: LiteralString = "SELECT id FROM " + _FUNCTION  # noqa: S608 (of constants)
DEFER_UNLESS_WAITING: LiteralString = "SELECT id, is_new FROM " + _FUNCTION  # noqa: S608
DEFER_PERIODIC: LiteralString = "SELECT {schema}.defer_periodic(%s, %s, " + _COLUMNS + ")"


def defer_jobs(
    jobs: Sequence[NewJob], kind: type[DeferredJob] = DeferredJob
) -> Operation[list[DeferredJob]]:
    """Return the jobs that stand, in the given order. No jobs need no statement.

    The server reports a conflict as a row and it is raised here, so your transaction goes on.
    """
    if not jobs:
        return []
    if len(jobs) == 1 and jobs[0].queueing_lock is None:
        ((id,),) = yield Statement(DEFER_ONE, _one(jobs[0]))
        return [kind(id)]
    if all(job.queueing_lock is None for job in jobs):
        rows = yield Statement(DEFER, _columns(jobs))
        return [kind(id) for (id,) in rows]
    rows = yield Statement(DEFER_UNLESS_WAITING, _columns(jobs))
    if _policy(jobs) is OnConflict.RAISE:
        _refuse_conflict(jobs, rows)
    stand = [kind(id) for id, _ in rows]
    for job, (_, is_new) in zip(stand, rows, strict=True):
        job.is_new = is_new
    return stand


def defer_periodic(periodic_id: str, instant: datetime, job: NewJob) -> Operation[int | None]:
    """Return the id of that instant's job, or None if it or a later one was already deferred."""
    ((id,),) = yield Statement(DEFER_PERIODIC, [periodic_id, instant, *_columns([job])])
    return id  # type: ignore[no-any-return]


def _one(j: NewJob) -> list[Any]:
    return [
        j.task_name, j.args, j.queue, j.lock, j.priority, j.schedule_at, j.schedule_in,
        j.on_retry, j.on_failure, j.timeout,
    ]  # fmt: skip


def _columns(jobs: Sequence[NewJob]) -> list[Any]:
    queueing_locks = unless_all(None, (job.queueing_lock for job in jobs))
    return [
        [job.task_name for job in jobs],
        [job.args for job in jobs],
        [job.queue for job in jobs],
        unless_all(None, (job.lock for job in jobs)),
        [job.priority for job in jobs],
        unless_all(None, (job.schedule_at for job in jobs)),
        unless_all(None, (job.schedule_in for job in jobs)),
        unless_all(OnRetry.HOLD, (job.on_retry for job in jobs)),
        unless_all(OnFailure.CONTINUE, (job.on_failure for job in jobs)),
        queueing_locks,
        _policy(jobs) if queueing_locks else OnConflict.RAISE,
        unless_all(None, (job.timeout for job in jobs)),
    ]


def _policy(jobs: Sequence[NewJob]) -> OnConflict:
    policies = {job.on_conflict for job in jobs if job.queueing_lock is not None}
    if len(policies) > 1:
        raise BadArgument(
            "on_conflict",
            "the jobs of one call with a queueing lock have one policy; use several calls",
        )
    return policies.pop()


def _refuse_conflict(jobs: Sequence[NewJob], rows: Rows) -> None:
    for job, (id, is_new) in zip(jobs, rows, strict=True):
        if is_new is False:
            assert job.queueing_lock is not None
            raise AlreadyEnqueued(job.queueing_lock, id)
