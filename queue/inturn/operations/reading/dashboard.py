"""Reads for the pages of the dashboard, each in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from inturn.operations import Operation, Statement, ask, read
from inturn.operations.changes.jobs import LIST_SUMMARIES, SEARCH_IS_CUT, JobFilter, JobSummary

# Each session of the server adds to these counters once a second. They only tell that something
# has changed, and cost the same for any size of the tables.
ACTIVITY = """
SELECT coalesce(sum(pg_stat_get_tuples_inserted(pg_class.oid)
    + pg_stat_get_tuples_updated(pg_class.oid) + pg_stat_get_tuples_deleted(pg_class.oid)), 0)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relname IN (
    'jobs', 'lanes', 'lane_audit', 'pauses', 'batches')
"""
FIND_LANES = """
SELECT found.lock, line.waiting, line.job_id, line.since
FROM {schema}.find_lanes(NULL, %s, %s) AS found(lock)
CROSS JOIN LATERAL {schema}.measure_line(found.lock) AS line
"""
# The time keeps the second half from reading every day of the history.
LANE_JOBS = """
SELECT asked.id, job.queue, job.task, job.stored_as::text, job.worker_id
FROM unnest(%s::bigint[]) AS asked(id)
CROSS JOIN LATERAL (
    SELECT queue, task, stored_as, worker_id FROM {schema}.live_jobs WHERE live_jobs.id = asked.id
    LIMIT 1) AS job
UNION ALL
SELECT asked.id, job.queue, job.task, job.status::text, NULL
FROM unnest(%s::bigint[], %s::timestamptz[]) AS asked(id, at)
CROSS JOIN LATERAL (
    SELECT queue, task, status FROM {schema}.all_jobs
    WHERE all_jobs.id = asked.id AND finished_at >= asked.at - interval '1 day'
        AND finished_at <= asked.at + interval '1 day'
    ORDER BY finished_at DESC LIMIT 1) AS job
"""
LINE: LiteralString = (
    "SELECT "  # noqa: S608 (of constants)
    + JobSummary.columns.replace("finished_at", "NULL::timestamptz")
    + " FROM {schema}.live_jobs WHERE id = ANY (ARRAY(SELECT {schema}.list_line(%s, %s)))"
    " ORDER BY priority DESC, id"
)
# One statement returns both, and the first even if no job is found.
RUNS: LiteralString = (
    "SELECT cut.ended, found.* "
    "FROM (SELECT) AS always CROSS JOIN ("
    + SEARCH_IS_CUT
    + ") AS cut LEFT JOIN ("
    + LIST_SUMMARIES
    + ") AS found ON true"
)


@dataclass(frozen=True, slots=True)
class FoundLane:
    """A lane found by the prefix of its lock. `waiting` is at most 1,001."""

    lock: str
    waiting: int
    job_id: int | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class LaneJob:
    """The job that a lane waits for or that holds it. `worker_id` is its worker."""

    queue: str
    task: str
    status: str
    worker_id: UUID | None


@dataclass(frozen=True, slots=True)
class LastRuns:
    """The last ended jobs of a lane.

    `searched` is how many of the newest ended jobs were searched for them. None: none are missing.
    """

    ended: list[JobSummary]
    searched: int | None


def get_activity(schema: str) -> Operation[int]:
    """Return a number that grows with each change of a job or lane."""
    return ask(int, ACTIVITY, schema)


def find_lanes(prefix: str, limit: int) -> Operation[list[FoundLane]]:
    """Return lanes whose locks have this prefix, sorted by lock."""
    return read(FoundLane, FIND_LANES, prefix, limit)


def get_lane_jobs(
    live: Sequence[int], failed: Sequence[tuple[int, datetime]]
) -> Operation[dict[int, LaneJob]]:
    """Return jobs by their ids. `failed` are those that halted a lane, and when."""
    ids, times = [job_id for job_id, _ in failed], [at for _, at in failed]
    rows = yield Statement(LANE_JOBS, [list(live), ids, times])
    return {row[0]: LaneJob(*row[1:]) for row in rows}


def list_line(lock: str, limit: int) -> Operation[list[JobSummary]]:
    """Return the waiting jobs of a lane, in the order in which they will run."""
    return read(JobSummary, LINE, lock, limit)


def list_runs(lock: str, statuses: Sequence[str], limit: int) -> Operation[LastRuns]:
    """Return the last ended jobs of a lane, in the order in which they ended."""
    which = JobFilter(statuses=statuses, lock=lock)
    asked = which.page_parameters(limit)
    rows = yield Statement(RUNS, [*asked, *asked])
    ended = [JobSummary(*row[1:]) for row in rows if row[1] is not None]
    ended.sort(key=lambda job: (job.finished_at or job.created_at, job.id))
    return LastRuns(ended, searched=which.search if rows[0][0] and len(ended) < limit else None)
