"""A lane in `queue top`: why it does not move, and the command that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from inturn.cli.job_argument import make_runnable
from inturn.cli.next_command import complete
from inturn.formatting import argument, last_line, on_clock, with_times
from inturn.model import Lane, Reason
from inturn.operations.overview import TroubledLane

BOUND = 1000  # waiting jobs that are counted
# They say what every job of a busy lane says.
COMMON = ("running", "claimed", "progress", "lane held", "in batch", "ready")


@dataclass(frozen=True, slots=True)
class LiveLane:
    """A lane that does not move, or is in use. `unblock` is None if it goes on by itself."""

    lock: str
    state: str
    since: datetime
    waiting: int
    more: bool  # more wait than were counted
    why: str
    unblock: str | None


def describe_lane(
    found: TroubledLane, lane: Lane | None, reasons: Sequence[Reason], now: datetime
) -> LiveLane:
    """Return the lane with the reason that matters most.

    `lane` is its row if it has one, and `reasons` are those of the job that goes next.
    """
    why, unblock = _explain(found, lane, reasons, now)
    return LiveLane(
        found.lock,
        found.trouble,
        found.since,
        min(found.waiting, BOUND),
        found.waiting > BOUND,
        why,
        unblock,
    )


def _explain(
    found: TroubledLane, lane: Lane | None, reasons: Sequence[Reason], now: datetime
) -> tuple[str, str | None]:
    lock = argument(found.lock)
    if lane is not None and found.trouble == "halted":
        job = f"job {lane.failed_job_id} {lane.failed_task or '(deleted)'} failed"
        verb = "retry-head" if lane.failed_task else "resume"
        return _with_error(job, lane), complete(f"queue lanes {verb} {lock}")
    if lane is not None and found.trouble == "paused":
        end = f" until {on_clock(lane.stopped_until, now)}" if lane.stopped_until else ""
        reason = f": {lane.stop_reason}" if lane.stop_reason else ""
        return f"by {lane.stopped_by}{end}{reason}", complete(f"queue lanes resume {lock}")
    if lane is not None and found.trouble == "retrying" and lane.due_at and lane.due_at > now:
        job = f"job {lane.job_id} {lane.task}, again at {on_clock(lane.due_at, now)}"
        return _with_error(job, lane), complete(f"queue lanes retry-head {lock}")
    if lane is not None and found.trouble == "held":
        advised = next((each.unblock for each in reasons if each.unblock), None)
        return _describe_holder(lane), None if advised is None else complete(advised)
    return _choose(reasons, now)


def _describe_holder(lane: Lane) -> str:
    if lane.readers is not None:
        return f"shared by {lane.readers:,}"
    return f"job {lane.job_id} {lane.task} on {lane.worker or '(gone)'}"


def _with_error(job: str, lane: Lane) -> str:
    return f"{job}: {last_line(lane.last_error)}" if lane.last_error else job


def _choose(reasons: Sequence[Reason], now: datetime) -> tuple[str, str | None]:
    """Return the first reason that names a remedy, or else the first that says something."""
    telling = [each for each in reasons if each.reason not in COMMON] or list(reasons)
    if not telling:
        return "", None
    chosen = next((each for each in telling if each.unblock), telling[0])
    return with_times(chosen.detail, now), make_runnable(chosen.unblock)
