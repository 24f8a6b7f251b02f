"""What the jobs themselves tell about the promises: a few thousand at a time, by their ids."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from inturn.arguments import check_moment
from inturn.operations import Operation, Statement, find
from inturn.operations.engine.maintenance import get_now

SIZE = 2000  # jobs that a statement reads
LISTED = 1000  # violations; more are only counted
LONGEST_CALL = timedelta(seconds=5)
LONGEST_TRANSACTION = timedelta(minutes=1)
SLICE = """
SELECT verdict, promise, reason, lock, job_id, other_id, seen, jobs, kept::text, resume_after
FROM {schema}.verify_slice(%s, %s::{schema}.job_run[], %s, %s, %s, %s, %s, %s)
"""
LAST = "SELECT at, jobs, violations FROM {schema}.last_verification()"


@dataclass(frozen=True, slots=True)
class Deviation:
    """Jobs that broke a promise, or started out of order for a reason. The jobs are an example.

        for each in app.verify().allowed:
            print(each.promise, each.reason, each.jobs)

    `promise` is order, overlap, once, fence, limit, parent or batch. `jobs` counts how many jobs
    did the same for the same reason.
    """

    promise: str
    reason: str | None
    lock: str | None
    job_id: int
    other_id: int | None
    seen: str
    jobs: int


@dataclass(slots=True)
class Verification:
    """Whether the queue has kept its promises.

        found = app.verify()
        print(found.jobs, found.violations, [each.seen for each in found.broken])

    broken: the violations, at most 1,000. `violations` counts all of them.
    allowed: why jobs started out of order, and how often.
    unsure: the same, where the history does not tell whether it was allowed.
    unknown: what it does not tell about any job.
    """

    jobs: int = 0
    violations: int = 0
    broken: list[Deviation] = field(default_factory=list)
    allowed: list[Deviation] = field(default_factory=list)
    unsure: list[Deviation] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_kept(self) -> bool:
        """True if nothing was broken."""
        return not self.violations


class LastVerification(NamedTuple):
    """What the last job of the schedule found."""

    at: datetime
    jobs: int
    violations: int


class Place(NamedTuple):
    """How far the reading is, in ids, and what it has found."""

    first: int
    reached: int
    last: int
    resume_after: int
    found: Verification


Watch = Callable[[Place], object]


def verify(
    since: timedelta | datetime | None,
    lock: str | None,
    *,
    call: timedelta = LONGEST_CALL,
    transaction: timedelta = LONGEST_TRANSACTION,
    after: int = 0,
    watch: Watch = lambda _: None,
) -> Operation[Verification]:
    """Judge the jobs that ended since then, and the living ones. Each slice is a transaction.

    To continue an interrupted call, pass the last `resume_after` as `after`.
    """
    now = yield from get_now()
    found = Verification(since=_find_start(since, now), until=now)
    reached: int | None = after
    first: int | None = None
    kept = "{}"
    while reached is not None:
        *rows, (*_, reached, last, _, jobs, kept, resume_after) = yield Statement(
            SLICE, [reached, kept, now, found.since, lock, SIZE, call, transaction]
        )
        for verdict, *observed, _, _ in rows:
            _note(found, verdict, Deviation(*observed))
        found.jobs += jobs
        if reached is not None:
            first = first or reached
            watch(Place(first, reached, last, resume_after, found))
    return found


def _find_start(since: timedelta | datetime | None, now: datetime) -> datetime | None:
    """Return the moment from which to judge, or None for the whole history."""
    if not isinstance(since, timedelta):
        return check_moment("since", since)
    try:
        return now - since
    except OverflowError:  # before the first year
        return None


def get_last() -> Operation[LastVerification | None]:
    """Return what the schedule found last, if there is one."""
    return find(LastVerification, LAST)


def _note(found: Verification, verdict: str, seen: Deviation) -> None:
    if verdict == "unknown":
        found.unknown.append(seen.seen)
    elif verdict == "broken":
        found.violations += 1
        if len(found.broken) < LISTED:
            found.broken.append(seen)
    else:
        known = found.allowed if verdict == "allowed" else found.unsure
        for place, other in enumerate(known):
            if (other.promise, other.reason) == (seen.promise, seen.reason):
                known[place] = replace(other, jobs=other.jobs + seen.jobs)
                return
        known.append(seen)
