"""Why a lane does not move, in a few words, and the command that retries its job."""

from collections.abc import Sequence
from datetime import UTC, datetime

from inturn.formatting import argument, last_line, relative
from inturn.model import Lane, Reason

SAY_SO = ("finished", "lane halted", "retry wait")  # reasons whose advice is to retry the job


def get_reason(lane: Lane, now: datetime | None = None) -> str:
    """Return what the lane waits for. `now` is the database's time."""
    error = last_line(lane.last_error)
    if lane.failed_job_id is not None and lane.last_error:
        return error
    if lane.waits_for is not None:
        return f"waits for lane {lane.waits_for}"
    if lane.readers is not None:
        return f"shared by {lane.readers:,}"
    if lane.job_status == "claimed":
        return "claimed: its worker runs other jobs first"
    if lane.state == "paused":
        return ": ".join(filter(None, (f"by {lane.stopped_by}", lane.stop_reason)))
    return lane.stop_reason or _describe(lane, now or datetime.now(UTC), error)


def _describe(lane: Lane, now: datetime, error: str) -> str:
    """Return what its state means for its job, with the last error of that job."""
    said = {
        "delayed": f"an open transaction has job {lane.job_id} locked",
        "held": _held(lane),
        "retrying": _retrying(lane, now),
    }.get(lane.state, "")
    return ": ".join(filter(None, (said, error)))


def _held(lane: Lane) -> str:
    if lane.worker is None:
        return "its worker is gone"
    if lane.last_error:
        return f"attempt {lane.attempts} is running, the last one failed"
    return f"attempt {lane.attempts} is running" if lane.attempts else "running"


def _retrying(lane: Lane, now: datetime) -> str:
    if lane.due_at is None or lane.due_at <= now:
        return "its retry is due"  # but a pause may hold it, which `explain` says
    return f"retry {relative(lane.due_at, now)}"


def advise_retry(lock: str, reasons: Sequence[Reason]) -> str:
    """Return the command, after the condition that `explain` puts first."""
    advised = (each.unblock for each in reasons if each.reason in SAY_SO and each.unblock)
    # The command may be complete, such as `manage.py queue lanes`.
    condition, colon, _ = next(advised, "").partition(" lanes ")[0].rpartition(": ")
    return f"{condition}{colon}queue lanes retry-head {argument(lock)}"
