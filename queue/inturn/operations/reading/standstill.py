"""Stuck work and its causes: everything the doctor judges, in one statement."""

from dataclasses import dataclass
from typing import Annotated

from inturn.operations import Operation
from inturn.operations.changes.lanes import LongHold
from inturn.operations.reading.failures import (
    RECENT,
    RECENT_WITHOUT,
    SHARED,
    SHARED_WITHOUT,
    RecentFailures,
    SharedError,
)
from inturn.operations.reading.measures import Measures
from inturn.operations.reading.parts import MOST, read_parts

HELD = """
SELECT lock, job_id, task, since, extract(epoch FROM usual)::float8 AS usual, limit_key
FROM {schema}.held_for_long(%s)
"""


@dataclass(frozen=True, slots=True)
class Standstill(Measures):
    """Waiting, held and failing work."""

    held: Annotated[list[LongHold], HELD, MOST]
    shared: Annotated[list[SharedError], SHARED]
    recent: Annotated[list[RecentFailures], RECENT]


@dataclass(frozen=True, slots=True)
class StandstillWithoutErrors(Standstill):
    """The same for a role that may not read errors."""

    shared: Annotated[list[SharedError], SHARED_WITHOUT]
    recent: Annotated[list[RecentFailures], RECENT_WITHOUT]


def find_standstill(schema: str, *, with_errors: bool) -> Operation[Standstill]:
    kind = Standstill if with_errors else StandstillWithoutErrors
    return (yield from read_parts(kind, schema))
