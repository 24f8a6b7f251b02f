"""Counts of failures: the common errors, now and in the last hour.

Errors may hold secrets, so not every role may read them. Without them, the counts remain.
"""

from dataclasses import dataclass
from datetime import datetime

from inturn.operations import Operation, Statement, read

RECENT = """
SELECT task, failed, last_at, job_id, error, first_at, lanes FROM {schema}.recent_failures
"""
RECENT_WITHOUT = RECENT.replace(" error,", " NULL AS error,")
ALIKE = "SELECT job_ids FROM {schema}.recent_failures WHERE %s = ANY (job_ids)"
SHARED = "SELECT halted, retrying, job_id, task, lock, error FROM {schema}.shared_errors"
SHARED_WITHOUT = SHARED.replace(" error ", " NULL AS error ")
PARENTS = "SELECT job_id, queue, task, lock, created_at, parent_id FROM {schema}.failed_parents"
BOUND = 1000  # how many failures of the last hour are counted


@dataclass(frozen=True, slots=True)
class RecentFailures:
    """A row of the view recent_failures: jobs of one task that failed with one error."""

    task: str
    failed: int
    last_at: datetime
    job_id: int
    error: str | None  # None: there is none, or you may not read it
    first_at: datetime
    lanes: int  # in which they are


@dataclass(frozen=True, slots=True)
class SharedError:
    """A row of the view shared_errors: an error of several lanes or jobs."""

    halted: int
    retrying: int
    job_id: int
    task: str
    lock: str | None
    error: str | None  # None: you may not read it


@dataclass(frozen=True, slots=True)
class FailedParent:
    """A row of the view failed_parents: a job that stays pending because a parent has failed."""

    job_id: int
    queue: str
    task: str
    lock: str | None
    created_at: datetime
    parent_id: int


def list_recent_failures(*, with_errors: bool) -> Operation[list[RecentFailures]]:
    """Return the failures of the last hour by task and error, most common first."""
    return read(RecentFailures, RECENT if with_errors else RECENT_WITHOUT)


def list_alike(job_id: int) -> Operation[list[int]]:
    """Return the jobs of the last hour that failed with the error of this one, and of its task."""
    rows = yield Statement(ALIKE, [job_id])
    return list(rows[0][0]) if rows else []


def list_shared_errors(*, with_errors: bool) -> Operation[list[SharedError]]:
    """Return the errors that several lanes or jobs have now, most common first."""
    return read(SharedError, SHARED if with_errors else SHARED_WITHOUT)


def list_failed_parents() -> Operation[list[FailedParent]]:
    """Return jobs that stay pending because a parent has failed, at most 1,000."""
    return read(FailedParent, PARENTS)
