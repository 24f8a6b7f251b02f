"""Reads for `queue top` every two seconds. No statement counts everything."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from inturn.model import Lane, Reason
from inturn.operations import Operation, Statement
from inturn.operations.changes.lanes import GET_SOME

# Plans that walk an index and stop at a LIMIT, even if the statistics are those of an empty table.
PLAN_BY_INDEX = """
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""

# Halted and paused lanes come from an index, and so do jobs in the hands of a worker, jobs that
# wait for a limit, and the first 1,000 lanes of a queue that could start. The other lanes are
# looked for among the first 10,000.
TROUBLED = """
WITH stopped AS MATERIALIZED (
    (SELECT lock, 'halted' AS trouble, stopped_at AS since, NULL::bigint AS job_id
     FROM {schema}.lanes WHERE stopped = 'halted' ORDER BY stopped_at LIMIT %s)
    UNION ALL
    (SELECT lock, 'paused', stopped_at, NULL
     FROM (SELECT * FROM {schema}.lanes WHERE stopped = 'paused' ORDER BY stopped_at LIMIT 1000)
        AS paused
     WHERE (stopped_until > {schema}.clock()) IS NOT FALSE LIMIT %s)
), stalled AS MATERIALIZED (
    SELECT name AS lock, 'stalled' AS trouble, job.started_at AS since, job.id AS job_id
    FROM unnest(%s::uuid[]) AS silent(id)
    CROSS JOIN LATERAL (
        SELECT id, lock, locks, started_at FROM {schema}.jobs
        WHERE status = 'doing' AND worker_id = silent.id LIMIT 1000) AS job
    CROSS JOIN LATERAL unnest(coalesce(job.locks, ARRAY[job.lock])) AS name
    WHERE job.lock IS NOT NULL
    ORDER BY job.started_at LIMIT %s
), unserved AS MATERIALIZED (
    SELECT head.lock, CASE WHEN unserved.task IS NULL THEN 'unserved' ELSE 'unknown' END AS trouble,
           head.since, head.id AS job_id
    FROM unnest(%s::text[], %s::text[]) AS unserved(queue, task)
    CROSS JOIN LATERAL (
        SELECT first.lock, first.id, first.since FROM (
            SELECT lock, id, task, coalesce(scheduled_at, created_at) AS since FROM {schema}.jobs
            WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL
                AND queue = unserved.queue
            ORDER BY priority DESC, id LIMIT 1000) AS first
        WHERE coalesce(first.task = unserved.task, true)
            AND NOT EXISTS (SELECT FROM {schema}.lanes WHERE lanes.lock = first.lock)
        LIMIT %s) AS head
), limited AS MATERIALIZED (
    SELECT lock, 'limited' AS trouble, since, id AS job_id FROM (
        SELECT lock, id, coalesce(scheduled_at, created_at) AS since FROM {schema}.jobs
        WHERE status = 'limited' ORDER BY limit_key LIMIT 1000) AS job
    WHERE lock IS NOT NULL ORDER BY since LIMIT %s
), later AS MATERIALIZED (
    SELECT lock, state::text AS trouble, since FROM (
        SELECT lock, state, since FROM {schema}.lanes
        WHERE coalesce(look_at, stopped_until) IS NOT NULL
        ORDER BY coalesce(look_at, stopped_until) LIMIT 1000) AS lane
    WHERE state = 'delayed' LIMIT %s
), in_use AS MATERIALIZED (
    SELECT lock, trouble, since FROM (
        SELECT lane.lock, lane.since, CASE WHEN lane.state = 'retrying' AND (
            SELECT true FROM {schema}.jobs AS head
            WHERE head.id = lane.job_id AND (head.queue::text, head.task::text) IN (
                SELECT * FROM unnest(%s::text[], %s::text[])) LIMIT 1)
            THEN 'unknown' ELSE lane.state::text END AS trouble
        FROM (SELECT lock, state, since, job_id FROM {schema}.lanes ORDER BY lock LIMIT 10000)
            AS lane
        WHERE lane.state IN ('held', 'retrying')) AS lane
    WHERE coalesce(trouble = %s, true)
    ORDER BY trouble <> 'unknown', trouble = 'held', since LIMIT %s
), idle AS MATERIALIZED (
    SELECT lock, 'idle' AS trouble, since, job_id FROM {schema}.idle_lanes ORDER BY since LIMIT %s
), found AS (
    TABLE stopped UNION ALL TABLE stalled UNION ALL TABLE unserved UNION ALL TABLE limited
    UNION ALL TABLE idle
    UNION ALL SELECT lock, trouble, since, NULL FROM later
    UNION ALL SELECT lock, trouble, since, NULL FROM in_use
), ranked AS (
    SELECT DISTINCT ON (lock) lock, trouble, since, job_id, array_position(
        ARRAY['halted', 'stalled', 'delayed', 'unserved', 'unknown', 'limited', 'paused',
            'retrying', 'idle', 'held'], trouble) AS rank
    FROM found ORDER BY lock, rank, since
), shown AS (
    SELECT * FROM ranked WHERE coalesce(trouble = %s, true)
    ORDER BY rank, since, lock LIMIT %s
)
SELECT lock::text, trouble, since, job_id, (
    SELECT count(*) FROM (
        SELECT FROM {schema}.jobs
        WHERE jobs.lock = shown.lock AND jobs.status IN ('todo', 'blocked', 'limited', 'paused')
            AND jobs.lock IS NOT NULL AND jobs.keeps_lanes IS NULL
        UNION ALL
        SELECT FROM {schema}.waits WHERE waits.lock = shown.lock
        LIMIT 1001) AS line)
FROM shown ORDER BY rank, since, lock
"""
# One job of each key, among the first 1,000 that wait for their limits.
LIMITED = """
SELECT DISTINCT ON (limit_key) id FROM (
    SELECT id, limit_key FROM {schema}.jobs WHERE status = 'limited' ORDER BY limit_key LIMIT 1000
) AS waiting ORDER BY limit_key, id LIMIT %s
"""
REASONS = """
SELECT asked.id, found.reason, found.detail, found.unblock
FROM unnest(%s::bigint[]) WITH ORDINALITY AS asked(id, place)
CROSS JOIN LATERAL {schema}.explain(asked.id) WITH ORDINALITY
    AS found(reason, detail, unblock, number)
ORDER BY place, number
"""
# The server's own counters: each of its sessions adds to them once a second. They include work
# that was rolled back.
COUNTS = """
SELECT pg_stat_get_tuples_inserted(pg_class.oid), pg_stat_get_tuples_deleted(pg_class.oid), (
    SELECT count(*) FROM (
        SELECT FROM {schema}.finished_jobs
        WHERE status = 'failed' AND finished_at > {schema}.clock() - interval '1 minute'
        LIMIT 1000) AS failed)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relname = 'jobs'
"""


@dataclass(frozen=True, slots=True)
class TroubledLane:
    """A lane that may need a person, or is in use.

    `trouble` is a state of a lane, or `stalled` (its worker is silent), `unserved` (no worker
    serves the queue of its next job), `unknown` (no worker knows its task) or `limited`. `job_id`
    is the job to ask about, if the lane need not have a row. `waiting` is at most 1,001.
    """

    lock: str
    trouble: str
    since: datetime
    job_id: int | None
    waiting: int


class Counts(NamedTuple):
    """How many jobs were stored and have left since the server started counting.

    `failed` counts the last minute, and at most 1,000.
    """

    deferred: int
    ended: int
    failed: int


def plan_by_index() -> Operation[None]:
    """Let the next operations of this transaction read by index, whatever the statistics say."""
    yield Statement(PLAN_BY_INDEX)


def list_troubled_lanes(
    silent: Sequence[UUID],
    unserved: Sequence[tuple[str, str | None]],
    limit: int,
    state: str | None = None,
) -> Operation[list[TroubledLane]]:
    """Return stuck lanes, worst first, then lanes in use.

    `silent` are workers that are late or blocked. `unserved` are queues that no worker serves, and
    tasks of queues that no worker knows. `state` restricts them to one state.
    """
    queues, tasks = [queue for queue, _ in unserved], [task for _, task in unserved]
    first = [limit, limit, list(silent), limit, queues, tasks, limit, limit, limit]
    rows = yield Statement(TROUBLED, [*first, queues, tasks, state, limit, limit, state, limit])
    return [TroubledLane(*row) for row in rows]


def get_lanes(locks: Sequence[str]) -> Operation[dict[str, Lane]]:
    """Return the rows of those lanes that are in use or stopped."""
    rows = yield Statement(GET_SOME, [list(locks)])
    return {row[0]: Lane(*row) for row in rows}


def find_limited(limit: int) -> Operation[list[int]]:
    """Return a job of each key whose limit holds jobs."""
    rows = yield Statement(LIMITED, [limit])
    return [id for (id,) in rows]


def explain_jobs(job_ids: Sequence[int]) -> Operation[dict[int, list[Reason]]]:
    """Return the reasons why each of these jobs is not running."""
    rows = yield Statement(REASONS, [list(job_ids)])
    reasons: dict[int, list[Reason]] = {}
    for job_id, *reason in rows:
        reasons.setdefault(job_id, []).append(Reason(*reason))
    return reasons


def get_counts(schema: str) -> Operation[Counts]:
    """Return counts whose differences give the rates at which jobs are deferred and end."""
    (row,) = yield Statement(COUNTS, [schema])
    return Counts(*row)
