"""What people do with lanes, and see of them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from inturn.model import Lane
from inturn.operations import Operation, Statement

LIST = """
SELECT lock, state::text, since, job_id, task, attempts, due_at, worker, heartbeat_at, waiting, last_error,
       stopped::text, stopped_at, stopped_until, stopped_by, stop_reason
FROM {schema}.lane_status
-- Which ones is decided first, so that the jobs of the others are not looked up.
WHERE lock = ANY (ARRAY(SELECT lock FROM {schema}.lanes ORDER BY stopped IS NULL, since LIMIT %s))
ORDER BY stopped IS NULL, since
"""
BOUND = 1000
COUNT = "SELECT count(*) FROM (SELECT FROM {schema}.lanes LIMIT %s) AS counted"
SHOW = """
SELECT lock, state::text, since, job_id, task, attempts, due_at, worker, heartbeat_at, waiting, last_error,
       stopped::text, stopped_at, stopped_until, stopped_by, stop_reason
FROM {schema}.lane_status WHERE lock = %s
"""
# One statement, one snapshot. Everything behind the head is bounded.
REPORT = """
WITH asked AS (
    SELECT %s::text AS lock
), lane AS MATERIALIZED (
    SELECT lanes.* FROM {schema}.lanes JOIN asked USING (lock)
), first AS (
    (SELECT priority, id FROM {schema}.jobs
     WHERE lock = (SELECT lock FROM asked) AND status IN ('todo', 'blocked') AND lock IS NOT NULL
     ORDER BY priority DESC, id LIMIT 1)
    UNION ALL
    SELECT priority, id FROM {schema}.jobs
    WHERE status = 'scheduled' AND scheduled_at <= {schema}.clock() AND lock = (SELECT lock FROM asked)
), head AS MATERIALIZED (
    SELECT job.* FROM {schema}.jobs AS job
    JOIN lane ON job.status = 'doing' AND job.worker_id = lane.worker_id AND job.lock = lane.lock
    UNION ALL
    SELECT job.* FROM {schema}.jobs AS job
    WHERE NOT EXISTS (SELECT FROM lane WHERE worker_id IS NOT NULL)
      AND job.id = coalesce((SELECT job_id FROM lane), (SELECT id FROM first ORDER BY priority DESC, id LIMIT 1))
), behind AS MATERIALIZED (
    SELECT id, task, created_at, row_number() OVER (ORDER BY priority DESC, id) AS place FROM (
        SELECT * FROM {schema}.jobs
        WHERE lock = (SELECT lock FROM asked) AND status IN ('todo', 'blocked') AND lock IS NOT NULL
        ORDER BY priority DESC, id LIMIT 1001
    ) AS waiting WHERE id NOT IN (SELECT id FROM head)
)
SELECT asked.lock, coalesce(lane.state::text, 'free'), lane.since, workers.name,
       lane.stopped::text, lane.stopped_at, lane.stopped_until, lane.stopped_by, lane.stop_reason,
       head.id, head.task, head.attempts, head.created_at,
       CASE head.status WHEN 'doing' THEN head.started_at ELSE head.scheduled_at END, head.errors -> -1 ->> 'error',
       failed.id, failed.task, failed.attempts, failed.created_at, failed.finished_at, failed.errors -> -1 ->> 'error',
       (SELECT least(count(*), 1000) FROM behind), (SELECT min(created_at) FROM behind),
       ARRAY(SELECT id FROM behind ORDER BY place LIMIT 2), ARRAY(SELECT task FROM behind ORDER BY place LIMIT 2)
FROM asked
LEFT JOIN lane USING (lock)
LEFT JOIN head ON true
LEFT JOIN {schema}.workers ON workers.id = lane.worker_id
LEFT JOIN LATERAL (
    SELECT * FROM {schema}.finished_jobs WHERE id = lane.failed_job_id ORDER BY finished_at DESC LIMIT 1
) AS failed ON true
"""
PAUSE = "SELECT {schema}.pause_lane(%s, %s, coalesce(%s::timestamptz, {schema}.clock() + %s::interval), %s)"
RESUME = "SELECT {schema}.resume_lane(%s, %s)"
SKIP_HEAD = "SELECT {schema}.skip_head(%s, %s)"
RETRY_HEAD = "SELECT {schema}.retry_head(%s, %s)"
CANCEL_WAITING = "SELECT {schema}.cancel_waiting(%s, %s)"


@dataclass(frozen=True, slots=True)
class Head:
    """The job that a lane is about: it runs, goes next, or has failed and halted it. `at`: when it started, is due, failed."""

    id: int
    task: str
    attempts: int
    created_at: datetime
    at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Next:
    id: int
    task: str


@dataclass(frozen=True, slots=True)
class Report:
    """How a lane stands, also one that nobody holds: then its state is `free`."""

    lock: str
    state: str
    since: datetime | None
    worker: str | None
    stopped: str | None
    stopped_at: datetime | None
    stopped_until: datetime | None
    stopped_by: str | None
    stop_reason: str | None
    head: Head | None
    failed: Head | None
    behind: int  # BOUND: or more
    oldest: datetime | None  # of those that were counted
    next: list[Next]  # the first two of them

    @property
    def is_known(self) -> bool:
        return self.state != "free" or self.head is not None

    @property
    def waiting(self) -> int:
        """With the head, unless it runs."""
        return self.behind + (self.head is not None and self.state != "held")

    @property
    def is_cut(self) -> bool:
        return self.behind >= BOUND


def listed(limit: int) -> Operation[list[Lane]]:
    rows = yield Statement(LIST, [limit])
    return [Lane(*row) for row in rows]


def shown(lock: str) -> Operation[Lane | None]:
    rows = yield Statement(SHOW, [lock])
    return Lane(*rows[0]) if rows else None


def counted(limit: int) -> Operation[int]:
    """How many `listed` would list, at most limit."""
    ((count,),) = yield Statement(COUNT, [limit])
    return int(count)


def reported(lock: str) -> Operation[Report]:
    (row,) = yield Statement(REPORT, [lock])
    lane, head, failed, (behind, oldest, ids, tasks) = row[:9], row[9:15], row[15:21], row[21:]
    first = [Next(id, task) for id, task in zip(ids, tasks, strict=True)]
    fields = [*lane, _head(head), _head(failed), behind, oldest, first]
    return Report(*fields)


def pause(
    lock: str,
    reason: str | None,
    until: datetime | None,
    by: str | None,
    length: timedelta | None = None,
) -> Operation[bool]:
    """Until then; else for so long, by the server's clock; else until it is resumed."""
    ((done,),) = yield Statement(PAUSE, [lock, reason, until, length, by])
    return bool(done)


def resume(lock: str, by: str | None) -> Operation[bool]:
    ((done,),) = yield Statement(RESUME, [lock, by])
    return bool(done)


def skip_head(lock: str, by: str | None) -> Operation[int | None]:
    ((job_id,),) = yield Statement(SKIP_HEAD, [lock, by])
    return None if job_id is None else int(job_id)


def retry_head(lock: str, by: str | None) -> Operation[int | None]:
    ((job_id,),) = yield Statement(RETRY_HEAD, [lock, by])
    return None if job_id is None else int(job_id)


def cancel_waiting(lock: str, by: str | None) -> Operation[int]:
    ((count,),) = yield Statement(CANCEL_WAITING, [lock, by])
    return int(count)


def _head(fields: tuple[Any, ...]) -> Head | None:
    return None if fields[0] is None else Head(*fields)
