"""Deferring jobs."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, LiteralString

from inturn.errors import AlreadyEnqueued, BadArgument, kind_of
from inturn.model import OnConflict
from inturn.operations import Operation, Rows, Statement, unless_all
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.lanes import JobLanes
from inturn.tasks.options import CheckedOptions, NewJob, R

DEFER_ONE = """
SELECT {schema}.defer_job(
    %s, %s::text::jsonb, %s, %s, %s, %s::timestamptz, %s::interval,
    %s::text::{schema}.retry_policy, %s::text::{schema}.failure_policy, %s::interval
)
"""
DEFER_ONE_WITH_HEADERS: LiteralString = DEFER_ONE.rstrip(")\n") + ", %s::text::jsonb)"
# Text in binary (%b): in text format, each array element would be searched for quotes.
_COLUMNS = """
    %b::text[], %b::text[]::jsonb[], %b::text[], %b::text[], %s::int[], %s::timestamptz[],
    %s::interval[],
    %s::text[]::{schema}.retry_policy[], %s::text[]::{schema}.failure_policy[],
    %b::text[], %s::text::{schema}.conflict_policy, %s::interval[], %b::text[], %b::text[],
    %s::timestamptz[], %s::interval[], %b::text[]::jsonb[]
"""
# `defer_job` is for jobs without these options.
_RARE = ("queueing_lock", "limit", "group", "expires_at", "expires_in", "after", "batch")
# See _list_parents and _list_batches. The locks contain the cell.
_NO_COLUMNS = ("after", "on_parent", "batch", "cell")
_SCALARS = attrgetter(
    *(
        name
        for name in CheckedOptions._fields
        if name not in (*_RARE, *_NO_COLUMNS, "headers", "on_conflict")
    )
)
_RARELY_SET = attrgetter(*_RARE)
_NONE_SET = (None,) * len(_RARE)
DEFER: LiteralString = "SELECT id, is_new FROM {schema}.defer_jobs(" + _COLUMNS + ")"  # noqa: S608 (of constants)
_PARENTS: LiteralString = (
    ", p_after => %s::bigint[], p_after_of => %s::int[], "
    "p_on_parent => %s::text[]::{schema}.parent_policy[]"
)
_LANES: LiteralString = (
    ", p_lanes => %b::text[], p_lanes_of => %s::int[], p_lanes_shared => %s::boolean[]"
)
_NO_LANES = (None, None, None)
_BATCH: LiteralString = ", p_batch_ids => %s::bigint[]"
# Called with deferred jobs and their rows, in this process. It must not raise.
watchers: list[Callable[[Sequence[NewJob], Rows], None]] = []
DEFER_PERIODIC: LiteralString = "SELECT {schema}.defer_periodic(%s, %s, " + _COLUMNS + _LANES + ")"


def defer_jobs(jobs: Sequence[NewJob[R]], manager: object) -> Operation[list[DeferredJob[R]]]:
    """Defer the jobs. Return each one, or the waiting job that stands for it, in the given order.

    The server reports a conflict as a row, and Python raises it, so your transaction survives.
    """
    if not check_new(jobs):
        return []
    options = jobs[0].options
    has_usual_options = _RARELY_SET(options) == _NONE_SET and not isinstance(options.lock, JobLanes)
    if len(jobs) == 1 and has_usual_options:
        rows = yield _defer_one(jobs[0])
    else:
        rows = yield _defer_many(jobs)
        first = next((at for at, (_, is_new) in enumerate(rows) if is_new is False), None)
        if first is not None and _policy(jobs) is OnConflict.RAISE:
            raise AlreadyEnqueued(jobs[first].options.queueing_lock, rows[first][0])
    if watchers:
        _tell_watchers(jobs, rows)
    return _make_deferred_jobs(jobs, manager, *zip(*rows, strict=True))


def check_new(jobs: Sequence[NewJob[R]]) -> Sequence[NewJob[R]]:
    """Return the jobs, or raise BadArgument if one is not new."""
    for each in jobs:
        if type(each) is not NewJob:
            wrong = kind_of(each)
            raise BadArgument("jobs", f"has {wrong}. Give a list of what make_new_job returned")
    return jobs


def _defer_one(job: NewJob) -> Statement:
    parameters = [job.task_name, job.args, *_SCALARS(job.options)]
    if job.options.headers is None:
        return Statement(DEFER_ONE, parameters)
    return Statement(DEFER_ONE_WITH_HEADERS, [*parameters, job.options.headers])


def _make_deferred_jobs(
    jobs: Sequence[NewJob[R]], manager: object, ids: Iterable[int], are_new: Iterable[bool] = ()
) -> list[DeferredJob[R]]:
    """Return a DeferredJob for each new job, in the same order. Without `are_new`, all are new.

    Each asks the manager for its result, and decodes it by its task's return annotation.
    """
    deferred: list[DeferredJob[R]] = list(map(DeferredJob, ids))
    for each, job in zip(deferred, jobs, strict=True):
        each._manager = manager
        each._decoders = job.decoders
    for each, is_new in zip(deferred, are_new, strict=False):
        each.is_new = is_new
    return deferred


def _defer_many(jobs: Sequence[NewJob]) -> Statement:
    text, parameters = DEFER, _columns(jobs)
    for more, values in (
        (_PARENTS, _list_parents(jobs)),
        (_LANES, _list_lanes(jobs)),
        (_BATCH, _list_batches(jobs)),
    ):
        if values:
            text, parameters = text.removesuffix(")") + more + ")", parameters + values
    return Statement(text, parameters)


def defer_periodic(periodic_id: str, instant: datetime, job: NewJob) -> Operation[int | None]:
    """Return the id of that instant's job, or None if it or a later one was already deferred."""
    id: int | None
    parameters = [periodic_id, instant, *_columns([job]), *(_list_lanes([job]) or _NO_LANES)]
    ((id,),) = yield Statement(DEFER_PERIODIC, parameters)
    if id is not None:
        _tell_watchers([job], [(id,)])
    return id


def _tell_watchers(jobs: Sequence[NewJob], rows: Rows) -> None:
    for note in watchers:
        note(jobs, rows)


def _columns(jobs: Sequence[NewJob]) -> list[Any]:
    """Return the columns of `defer_jobs`: names, arguments, and one for each option."""
    values = zip(*[job.options for job in jobs], strict=True)
    columns = dict(zip(CheckedOptions._fields, map(list, values), strict=True))
    for name, default in CheckedOptions()._asdict().items():
        columns[name] = unless_all(default, columns[name])
    if columns["lock"] is not None:  # see _list_lanes
        locks = columns["lock"]
        columns["lock"] = [None if isinstance(lock, JobLanes) else lock for lock in locks]
    for name in _NO_COLUMNS:
        del columns[name]
    columns["on_conflict"] = _policy(jobs) if columns["queueing_lock"] else OnConflict.RAISE
    return [[job.task_name for job in jobs], [job.args for job in jobs], *columns.values()]


def _list_lanes(jobs: Sequence[NewJob]) -> list[list[Any]]:
    """Return the locks of jobs with several, with the job of each, and whether it is shared."""
    lanes = [
        (lock, place, lock in job.options.lock.shared)
        for place, job in enumerate(jobs, 1)
        if isinstance(job.options.lock, JobLanes)
        for lock in job.options.lock.locks
    ]
    return [*map(list, zip(*lanes, strict=True))]


def _list_parents(jobs: Sequence[NewJob]) -> list[list[Any]]:
    """Return the parents of all jobs, with the job of each, and each job's policy."""
    if all(job.options.after is None for job in jobs):
        return []
    if any(job.options.queueing_lock is not None for job in jobs):
        raise BadArgument("after", "a job with a queueing_lock cannot come after others")
    edges = [
        (parent, place) for place, job in enumerate(jobs, 1) for parent in job.options.after or ()
    ]
    parents, places = map(list, zip(*edges, strict=True))
    return [parents, places, [job.options.on_parent for job in jobs]]


def _list_batches(jobs: Sequence[NewJob]) -> list[list[int | None]]:
    """Return the parameter with the batch of each job, or nothing if no job is in a batch."""
    batches = unless_all(None, (job.options.batch for job in jobs))
    if batches is None:
        return []
    if any(job.options.queueing_lock is not None for job in jobs):
        raise BadArgument("batch", "a job with a queueing_lock cannot be in a batch")
    return [batches]


def _policy(jobs: Sequence[NewJob]) -> OnConflict:
    policies: set[OnConflict] = {
        job.options.on_conflict for job in jobs if job.options.queueing_lock is not None
    }
    if len(policies) > 1:
        raise BadArgument(
            "on_conflict",
            "all jobs of a call with a queueing lock need the same policy; use several calls",
        )
    return policies.pop()
