"""Why a lane does not move, and the remedy: for `queue top` and the dashboard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from inturn.doctor.lane_reason import advise_retry, get_reason
from inturn.doctor.reader import RunOperation
from inturn.formatting import argument, last_line, on_clock, requote, with_times
from inturn.model import Lane, Reason
from inturn.operations.reading import overview
from inturn.operations.reading.overview import TroubledLane

BOUND = 1000  # waiting jobs that are counted
# Every job of a busy lane has these reasons.
COMMON = ("running", "claimed", "progress", "lane held", "in batch", "ready")


@dataclass(frozen=True, slots=True)
class StuckLane:
    """A lane that is stuck or in use. `unblock` is None if it continues by itself."""

    lock: str
    state: str
    since: datetime
    waiting: int
    more: bool  # more wait than were counted
    why: str
    unblock: str | None


def describe_lanes(
    run: RunOperation,
    troubled: Sequence[TroubledLane],
    now: datetime,
    rows: Mapping[str, Lane] | None = None,
) -> list[StuckLane]:
    """Return why each lane does not move, and what would unblock it.

    `rows` are the rows of lanes in use or stopped, if already known.
    """
    if rows is None:
        rows = run(overview.get_lanes([each.lock for each in troubled]))
    heads = {each.lock: get_head(each, rows.get(each.lock)) for each in troubled}
    asked = [head for each in troubled if (head := heads[each.lock])]
    reasons = run(overview.explain_jobs(list(dict.fromkeys(asked))))
    lanes = []
    for each in troubled:
        about_head = reasons.get(heads[each.lock] or 0, [])
        why, unblock = _explain(each, rows.get(each.lock), about_head, now)
        waiting, more = min(each.waiting, BOUND), each.waiting > BOUND
        lanes.append(StuckLane(each.lock, each.trouble, each.since, waiting, more, why, unblock))
    return lanes


def get_head(found: TroubledLane, lane: Lane | None) -> int | None:
    """Return the job that runs or goes next in a lane, or that has halted it."""
    return found.job_id or (lane.failed_job_id or lane.job_id if lane else None)


def _explain(
    found: TroubledLane, lane: Lane | None, reasons: Sequence[Reason], now: datetime
) -> tuple[str, str | None]:
    """Return the most important reason, and what would unblock the lane."""
    lock = argument(found.lock)
    if lane is not None and found.trouble == "halted":
        job = f"job {lane.failed_job_id} {lane.failed_task or '(deleted)'} failed"
        advised = advise_retry(found.lock, reasons) if lane.failed_task else None
        return _with_error(job, lane), advised or f"queue lanes resume {lock}"
    if lane is not None and found.trouble == "paused":
        end = f" until {on_clock(lane.stopped_until, now)}" if lane.stopped_until else ""
        reason = f": {lane.stop_reason}" if lane.stop_reason else ""
        return f"by {lane.stopped_by}{end}{reason}", f"queue lanes resume {lock}"
    if lane is not None and found.trouble == "retrying" and lane.due_at and lane.due_at > now:
        job = f"job {lane.job_id} {lane.task}, retry at {on_clock(lane.due_at, now)}"
        return _with_error(job, lane), advise_retry(found.lock, reasons)
    if lane is not None and found.trouble == "held":
        advised = next((each.unblock for each in reasons if each.unblock), None)
        return _describe_holder(lane), requote(advised)
    if lane is not None and lane.waits_for is not None:
        other = argument(lane.waits_for)
        return get_reason(lane, now), f"queue lanes explain {other}"
    if found.trouble == "unknown":
        reasons = [each for each in reasons if each.reason == "task unknown"] or reasons
    return _choose(reasons, now)


def _describe_holder(lane: Lane) -> str:
    if lane.readers is not None:
        return f"shared by {lane.readers:,}"
    return f"job {lane.job_id} {lane.task} on {lane.worker or '(gone)'}"


def _with_error(job: str, lane: Lane) -> str:
    return f"{job}: {last_line(lane.last_error)}" if lane.last_error else job


def _choose(reasons: Sequence[Reason], now: datetime) -> tuple[str, str | None]:
    """Return the first reason that names a remedy, or else the first specific one."""
    telling = [each for each in reasons if each.reason not in COMMON] or list(reasons)
    if not telling:
        return "", None
    chosen = next((each for each in telling if each.unblock), telling[0])
    return with_times(chosen.detail, now), requote(chosen.unblock)
