"""The last runs of a lane as a picture: one row of runs and waits over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from inturn.operations.changes.jobs import JobSummary
from inturn.operations.changes.lanes import LaneReport
from inturn.web.charts import ChartSpan, Tick, draw_ticks

WIDTH = 1200  # of the flat picture
THINNEST, GAP = 6.0, 2.0
ENOUGH = 5  # runs to compute a pace
MOVING = ("held", "free")  # only for these does the pace predict the rest


class LaneRun(NamedTuple):
    """A job on the row: its wait while the lane was free, and its run."""

    job_id: int
    kind: str
    x: float
    width: float
    wait_x: float
    wait_width: float
    lasted: timedelta
    waited: timedelta


@dataclass(frozen=True, slots=True)
class Picture:
    """The row, the times below it, and the lane's pace."""

    runs: list[LaneRun]
    ticks: list[Tick]
    since: datetime
    until: datetime
    per_minute: float | None
    eta: timedelta | None


def draw_runs(ended: Sequence[JobSummary], report: LaneReport, now: datetime) -> Picture | None:
    """Return the last runs, or None if there are fewer than two."""
    times = [
        (each.id, each.status, _get_due(each), each.started_at, each.finished_at)
        for each in ended
        if each.started_at and each.finished_at and each.finished_at >= each.started_at
    ]
    if report.head is not None and report.head_runs and report.head.at:
        # Its due time is unknown here, so it has no wait.
        times.append((report.head.id, "doing", report.head.at, report.head.at, now))
    if len(times) < 2:
        return None
    times.sort(key=lambda each: (each[3], each[0]))
    since = min(each[3] for each in times)
    until = max(max(each[4] for each in times), since + timedelta(milliseconds=1))
    span = ChartSpan(since, until, until - since, WIDTH)
    runs, free_since = [], since
    for job_id, status, due, started, finished in times:
        waiting = min(max(due, free_since), started)
        x = span.place(started)
        wait_x = span.place(waiting)
        runs.append(
            LaneRun(
                job_id,
                status,
                round(x, 1),
                round(max(THINNEST, span.place(finished) - x - GAP), 1),
                round(wait_x, 1),
                round(x - wait_x, 1),
                finished - started,
                started - waiting,
            )
        )
        free_since = max(free_since, finished)
    # Five one-second runs count as five per minute, as in the list of lanes.
    minutes = max((until - since) / timedelta(minutes=1), 1.0)
    pace = len(runs) / minutes if len(runs) >= ENOUGH else None
    moves = report.waiting and report.state in MOVING
    eta = timedelta(minutes=report.waiting / pace) if pace and moves else None
    return Picture(runs, draw_ticks(span), since, until, pace, eta)


def _get_due(job: JobSummary) -> datetime:
    return max(job.created_at, job.scheduled_at or job.created_at)
