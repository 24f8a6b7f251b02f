"""Paginated job lists. Each is one statement with a limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from inturn.operations import Operation, Statement, read
from inturn.operations.changes.jobs import JobFilter, JobSummary

LOOKED = 10_000  # the newest jobs to search if list_jobs does not support all of the filter
COUNTED = 1_000  # of each status
LONGEST_ARGUMENTS = 4_096  # bytes; longer ones are not sent

PAGE: LiteralString = (
    "SELECT "
    + JobSummary.columns
    + ", CASE WHEN %s AND octet_length(args::text) <= %s THEN args::text END "
    + "FROM {schema}.list_jobs"
    + JobFilter.page_text
    + " WHERE (%s::text IS NULL OR starts_with(task, %s)) "
    + "AND (%s::bigint[] IS NULL OR id = ANY (%s)) ORDER BY id DESC LIMIT %s"
)
IDS: LiteralString = (
    "SELECT id FROM {schema}.list_jobs" + JobFilter.page_text + " WHERE starts_with(task, %s)"  # noqa: S608 (of constants)
)
BY_ID: LiteralString = (
    "SELECT " + JobSummary.columns + " FROM {schema}.all_jobs WHERE id = ANY (%s::bigint[])"  # noqa: S608 (of constants)
)
COUNT_BY_STATUS: LiteralString = (
    "SELECT asked.status::text, counted.jobs_count, counted.more "
    "FROM unnest(%s::{schema}.job_status[]) AS asked(status) "
    "CROSS JOIN LATERAL {schema}.count_jobs(%s, "
    + JobFilter.text.replace("%s::{schema}.job_status[]", "ARRAY[asked.status]")
    + ") AS counted"
)


@dataclass(frozen=True, slots=True)
class JobPage:
    """Which jobs a page of a list shows: the newest that match.

    The prefix of a task, and many ids, are searched for among the newest 10,000 jobs that match
    otherwise: the first has no index, and the ids would be looked up in each day of the history.
    """

    which: JobFilter
    task_prefix: str | None = None
    ids: Sequence[int] | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job of a list, and its arguments as JSON unless they are too long or were not asked for."""

    job: JobSummary
    arguments: str | None


def list_page(page: JobPage, *, with_arguments: bool) -> Operation[list[ListedJob]]:
    """Return the jobs of a page, newest first."""
    ids = None if page.ids is None else list(page.ids)
    looked = page.limit if (page.task_prefix, ids) == (None, None) else LOOKED
    rows = yield Statement(
        PAGE,
        [
            *(with_arguments, LONGEST_ARGUMENTS),
            *page.which.page_parameters(looked),
            *(page.task_prefix, page.task_prefix, ids, ids, page.limit),
        ],
    )
    return [ListedJob(JobSummary(*row[:-1]), row[-1]) for row in rows]


def find_ids(which: JobFilter, task_prefix: str) -> Operation[list[int]]:
    """Return the newest jobs whose task has this prefix, for a bulk change, of 10,000."""
    return read(int, IDS, *which.page_parameters(LOOKED), task_prefix)


def list_by_id(ids: Sequence[int]) -> Operation[list[JobSummary]]:
    """Return these jobs in the order of the ids, without those that are gone."""
    rows = yield Statement(BY_ID, [list(ids)])
    found = {row[0]: JobSummary(*row) for row in rows}
    return [found[id] for id in ids if id in found]


def count_by_status(
    which: JobFilter, statuses: Sequence[str]
) -> Operation[dict[str, tuple[int, bool]]]:
    """Return how many jobs have each status, at most 1,000, and whether there may be more."""
    _, *others = which.parameters()
    rows = yield Statement(COUNT_BY_STATUS, [list(statuses), COUNTED, *others])
    return {status: (count, more) for status, count, more in rows}
