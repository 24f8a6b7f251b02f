"""What people do with single jobs, and see of them."""

from inturn.model import Reason, Status
from inturn.operations import Operation, Statement

STATUS = "SELECT status::text FROM {schema}.all_jobs WHERE id = %s"
EXPLAIN = "SELECT reason, detail, unblock FROM {schema}.explain(%s)"
CANCEL = "SELECT {schema}.cancel_job(%s, %s)::text"
DELETE = "SELECT {schema}.delete_job(%s)"
RETRY = "SELECT {schema}.retry_job(%s)"


def status(job_id: int) -> Operation[Status | None]:
    rows = yield Statement(STATUS, [job_id])
    return Status(rows[0][0]) if rows else None


def explain(job_id: int) -> Operation[list[Reason]]:
    rows = yield Statement(EXPLAIN, [job_id])
    return [Reason(*row) for row in rows]


def cancel(job_id: int, abort: bool) -> Operation[Status | None]:
    """Where the job is then; None: there is none."""
    ((result,),) = yield Statement(CANCEL, [job_id, abort])
    return None if result is None else Status(result)


def delete(job_id: int) -> Operation[bool]:
    ((gone,),) = yield Statement(DELETE, [job_id])
    return bool(gone)


def retry(job_id: int) -> Operation[bool]:
    ((done,),) = yield Statement(RETRY, [job_id])
    return bool(done)
