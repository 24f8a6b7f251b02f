"""What fires again and again: what workers tell of it, and how far it has come."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from inturn.operations import Operation, Statement

REGISTER = "SELECT {schema}.register_schedules(%s::text[], %s::text[], %s::text[], %s::text[])"
# In the order asked. Another worker may know it by another expression: since when is then not about ours. What lies more
# than a day ahead was written by a clock that was wrong, see defer_periodic.sql.
PROGRESS = """
SELECT {schema}.clock(), coalesce(
    greatest(
        CASE WHEN last_instant <= {schema}.clock() + interval '1 day' THEN last_instant END,
        CASE WHEN since <= {schema}.clock() + interval '1 day' AND s.cron = told.cron AND s.tz = told.tz THEN since END),
    CASE WHEN since <= {schema}.clock() + interval '1 day' THEN since END)
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])
    WITH ORDINALITY AS told(task, periodic_id, cron, tz, position)
LEFT JOIN {schema}.schedules AS s USING (task, periodic_id)
ORDER BY told.position
"""
LIST = """
SELECT task, periodic_id, cron, tz, since, last_instant, last_job_id FROM {schema}.schedules
ORDER BY task, periodic_id LIMIT %s
"""


class Told(NamedTuple):
    """A schedule as a worker tells of it."""

    task: str
    periodic_id: str
    cron: str
    tz: str


class Progress(NamedTuple):
    now: datetime
    after: datetime | None  # only later instants are to be deferred; None: it has to be registered


@dataclass(frozen=True, slots=True)
class Row:
    task: str
    periodic_id: str
    cron: str
    tz: str
    since: datetime
    last_instant: datetime | None
    last_job_id: int | None


def register(told: Sequence[Told]) -> Operation[None]:
    yield Statement(REGISTER, _columns(told))


def progress(told: Sequence[Told]) -> Operation[list[Progress]]:
    rows = yield Statement(PROGRESS, _columns(told))
    return [Progress(now, after) for now, after in rows]


def listed(limit: int) -> Operation[list[Row]]:
    rows = yield Statement(LIST, [limit])
    return [Row(*row) for row in rows]


def _columns(told: Sequence[Told]) -> list[list[str]]:
    return [list(column) for column in zip(*told, strict=True)]
