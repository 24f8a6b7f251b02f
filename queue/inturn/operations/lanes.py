"""What people do with lanes, and see of them."""

from datetime import datetime

from inturn.model import Lane
from inturn.operations import Operation, Statement

LIST = """
SELECT lock, state::text, since, job_id, task, attempts, due_at, worker, heartbeat_at, waiting, last_error,
       stopped::text, stopped_at, stopped_until, stopped_by, stop_reason
FROM {schema}.lane_status LIMIT %s
"""
SHOW = """
SELECT lock, state::text, since, job_id, task, attempts, due_at, worker, heartbeat_at, waiting, last_error,
       stopped::text, stopped_at, stopped_until, stopped_by, stop_reason
FROM {schema}.lane_status WHERE lock = %s
"""
PAUSE = "SELECT {schema}.pause_lane(%s, %s, %s, %s)"
RESUME = "SELECT {schema}.resume_lane(%s, %s)"
SKIP_HEAD = "SELECT {schema}.skip_head(%s, %s)"
RETRY_HEAD = "SELECT {schema}.retry_head(%s, %s)"
CANCEL_WAITING = "SELECT {schema}.cancel_waiting(%s, %s)"


def listed(limit: int) -> Operation[list[Lane]]:
    rows = yield Statement(LIST, [limit])
    return [Lane(*row) for row in rows]


def shown(lock: str) -> Operation[Lane | None]:
    rows = yield Statement(SHOW, [lock])
    return Lane(*rows[0]) if rows else None


def pause(lock: str, reason: str | None, until: datetime | None, by: str | None) -> Operation[bool]:
    ((done,),) = yield Statement(PAUSE, [lock, reason, until, by])
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
