"""Jobs come into being."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, LiteralString

from inturn.model import NewJob, OnFailure, OnRetry
from inturn.operations import Operation, Statement

# Text in binary (%b): as text, each element of an array would be searched for quotes.
_COLUMNS = """
    %b::text[], %b::text[]::jsonb[], %b::text[], %b::text[], %s::int[], %s::timestamptz[], %s::interval[],
    %s::text[]::{schema}.retry_policy[], %s::text[]::{schema}.failure_policy[]
"""
DEFER: LiteralString = "SELECT id FROM {schema}.defer_jobs(" + _COLUMNS + ")"  # noqa: S608 (of constants)
DEFER_PERIODIC: LiteralString = "SELECT {schema}.defer_periodic(%s, %s, " + _COLUMNS + ")"


def defer_jobs(jobs: Sequence[NewJob]) -> Operation[list[int]]:
    """Their ids, in the order given. No statement for no jobs."""
    if not jobs:
        return []
    rows = yield Statement(DEFER, _columns(jobs))
    return [id for (id,) in rows]


def defer_periodic(periodic_id: str, instant: datetime, job: NewJob) -> Operation[int | None]:
    """The id of the job of that instant; None: somebody has deferred it already, or a later one."""
    ((id,),) = yield Statement(DEFER_PERIODIC, [periodic_id, instant, *_columns([job])])
    return id  # type: ignore[no-any-return]


def _columns(jobs: Sequence[NewJob]) -> list[list[Any] | None]:
    return [
        [job.task_name for job in jobs],
        [job.args for job in jobs],
        [job.queue for job in jobs],
        _unless_all(None, (job.lock for job in jobs)),
        [job.priority for job in jobs],
        _unless_all(None, (job.schedule_at for job in jobs)),
        _unless_all(None, (job.schedule_in for job in jobs)),
        _unless_all(OnRetry.HOLD, (job.on_retry for job in jobs)),
        _unless_all(OnFailure.CONTINUE, (job.on_failure for job in jobs)),
    ]


def _unless_all(default: object, values: Iterable[Any]) -> list[Any] | None:
    """Nothing instead of a column that says nothing: the function fills in the default."""
    column = list(values)
    return column if any(value is not default for value in column) else None
