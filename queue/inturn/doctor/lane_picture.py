"""The state of a lane in a few lines: for `queue lanes` and the dashboard."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from inturn.doctor.lane_reason import advise_retry
from inturn.formatting import (
    amount,
    argument,
    last_line,
    on_clock,
    relative,
    span,
    visible,
    with_times,
)
from inturn.model import Reason
from inturn.operations.changes.lanes import AuditEntry, Head, LaneReport

# Reasons for which the picture has its own words. Others are about workers and transactions.
COVERED = (
    "running",
    "claimed",
    "progress",
    "scheduled",
    "retry wait",
    "finished",
    "unknown",
    "ready",
)
PAUSED = "queue paused"
DELAYED = "lane delayed"  # the only reason about the lane in explain's words
UNBLOCK_AT = 49  # column
NEXT = ("the next free worker takes it", None)


def draw(
    report: LaneReport,
    reasons: Sequence[Reason],
    now: datetime,
    complete: Callable[[str], str],
) -> list[str]:
    """Return the lines of `queue lanes explain`. `complete` completes its own commands."""
    lines = [
        f"{visible(report.lock)}  {describe_state(report)}   {describe_waiting(report, now)}",
        *describe_job(report, now),
    ]
    lines += [_step(*step) for step in list_steps(report, reasons, now, complete)]
    behind = [f"{job.id} {visible(job.task)}" for job in report.next]
    if report.failed and report.head:
        behind = [f"{report.head.id} {visible(report.head.task)}", *behind][:2]
    total = report.waiting if report.failed else report.behind
    if behind:
        others = total - len(behind)
        count = f"{'at least ' if report.is_cut else ''}{others:,} more"
        lines.append(f"  behind it: {', '.join(behind)}" + (f" … ({count})" if others else ""))
    return lines


def get_facts(report: LaneReport, now: datetime) -> dict[str, str | None]:
    """Return the names and values that `queue lanes show` prints."""
    job = report.failed or report.head
    since = f" since {on_clock(report.since, now)}" if report.since else ""
    return {
        "lock": visible(report.lock),
        "state": describe_state(report) + since,
        "worker": visible(report.worker) if report.worker else None,
        "stopped": _stop(report, now) if report.stopped else None,
        "job": _describe(job) if job else None,
        "last error": last_line(job.error) if job else None,
        "backlog": describe_waiting(report, now),
    }


def _describe(job: Head) -> str:
    is_claimed = job.status == "claimed"  # so this attempt has not started
    started = f"started {amount(job.attempts - is_claimed, 'time')}"
    return f"{job.id} {visible(job.task)}, {started}{', claimed' if is_claimed else ''}"


def format_entry(done: AuditEntry, now: datetime) -> str:
    reason = f": {visible(done.reason)}" if done.reason else ""
    jobs = f", {amount(done.jobs, 'job')}" if done.jobs else ""
    jobs = jobs if done.job_id is None else f", job {done.job_id}"
    what = f"{visible(done.operation)} by {visible(done.who)}"
    return f"  {on_clock(done.at, now)}  {what}{jobs}{reason}"


def describe_state(report: LaneReport) -> str:
    """Return the state of a lane, and whether it stops after this job."""
    stop = f", {report.stopped} after this job" if report.stopped and report.state == "held" else ""
    return f"{report.state}{stop}"


def describe_waiting(report: LaneReport, now: datetime) -> str:
    """Return the number of waiting jobs, and the age of the oldest."""
    count, times = report.behind, [report.oldest] if report.oldest else []
    if report.head and not report.head_runs and report.state != "retrying":
        count += 1
        times.append(report.head.created_at)
    if not count:
        return "nothing waits"
    or_more = " or more" if report.is_cut else ""
    return f"{count:,}{or_more} waiting, oldest {span(now - min(times))}"


def describe_job(report: LaneReport, now: datetime) -> Iterator[str]:
    """Yield a line about the running, next or failed job."""
    job = report.failed or report.head
    if job is None:
        return
    if report.failed:
        yield _line(
            "failed", job, f"attempt {job.attempts} failed {relative(job.at, now)}{_error(job)}"
        )
    elif report.head_runs:
        worker = f"worker {visible(report.worker or '(gone)')}"
        if job.status == "claimed":
            at = f"{relative(job.at, now)} " if job.at else ""
            yield _line("claimed", job, f"{at}by {worker}, which runs other jobs first")
        else:
            since = f" since {span(now - job.at)}" if job.at else ""
            yield _line("running", job, f"attempt {job.attempts}{since} on {worker}")
    elif job.attempts:
        at = f" {relative(report.since, now)}" if report.state == "retrying" else ""
        yield _line("head", job, f"attempt {job.attempts} failed{at}{_error(job)}")
    else:
        yield _line("head", job, "not tried yet")


def list_steps(
    report: LaneReport,
    reasons: Sequence[Reason],
    now: datetime,
    complete: Callable[[str], str] = str,
) -> list[tuple[str, str | None]]:
    """Return what the lane waits for, and what would unblock it.

    The commands in `reasons` are complete.
    """
    own = [(text, advised and complete(advised)) for text, advised in _steps(report, reasons, now)]
    return [*_of_runner(report, reasons), *own, *_of_others(reasons, now)] or [NEXT]


def _of_runner(report: LaneReport, reasons: Sequence[Reason]) -> Iterator[tuple[str, str | None]]:
    if report.head_runs and report.head and PAUSED not in [each.reason for each in reasons]:
        ending = next((each.unblock for each in reasons if each.reason == "running"), None)
        yield "the next job starts when this one ends", ending


def _line(role: str, job: Head, story: str) -> str:
    return f"  {role} {job.id} {visible(job.task)}  {story}"


def _error(job: Head) -> str:
    return f": {last_line(job.error)}" if job.error else ""


def _steps(
    report: LaneReport, reasons: Sequence[Reason], now: datetime
) -> Iterator[tuple[str, str | None]]:
    lock = argument(report.lock)
    if report.readers:
        yield f"shared by {amount(report.readers, 'job')}", None
    if report.waits_for:
        lane = visible(report.waits_for)
        yield f"it also waits for lane {lane}", f"queue lanes show {argument(report.waits_for)}"
    if report.state == "retrying" and report.head and report.head.at and report.head.at > now:
        yield f"next attempt at {on_clock(report.head.at, now)}", advise_retry(report.lock, reasons)
    if report.failed:
        yield "retry the failed job, then continue", advise_retry(report.lock, reasons)
        yield "continue without the failed job", f"queue lanes skip-head {lock}"
    elif report.stopped:
        yield _stop(report, now), f"queue lanes resume {lock}"


def _stop(report: LaneReport, now: datetime) -> str:
    end = f" until {on_clock(report.stopped_until, now)}" if report.stopped_until else ""
    reason = f": {visible(report.stop_reason)}" if report.stop_reason else ""
    who = visible(report.stopped_by or "")
    return f"{report.stopped} {relative(report.stopped_at, now)} by {who}{end}{reason}"


def _of_others(reasons: Sequence[Reason], now: datetime) -> Iterator[tuple[str, str | None]]:
    for each in reasons:
        if each.reason == DELAYED or (
            each.reason not in COVERED and not each.reason.startswith("lane ")
        ):
            yield visible(with_times(each.detail, now)), each.unblock


def _step(text: str, unblock: str | None) -> str:
    line = f"  └─ {text}"
    return line if unblock is None else f"{line:<{UNBLOCK_AT}}  unblock: {visible(unblock)}"
