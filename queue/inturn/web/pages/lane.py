"""Lane: its ended, running and waiting jobs, why it waits, and its actions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from inturn.doctor import lane_picture
from inturn.doctor.failed_attempts import FailedAttempt
from inturn.formatting import amount, option_value, requote, visible
from inturn.operations.changes import jobs, lanes
from inturn.operations.changes.jobs import SEARCHED
from inturn.operations.changes.lanes import LaneReport
from inturn.operations.reading import dashboard
from inturn.states import ENDED
from inturn.web.lanes.runs import draw_runs
from inturn.web.page import NotThere, Offer, View
from inturn.web.reading import PageReader

PAST, NEXT, CHANGES = 20, 50, 20
FURTHER = 10  # times as many jobs to search


@dataclass(frozen=True, slots=True)
class State:
    """The lane's state in words. `steps` name what it waits for, and the remedies."""

    report: LaneReport
    word: str
    waiting: str
    job: list[str]
    steps: list[tuple[str, str | None]]
    offers: list[Offer]


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failed attempt of the job that the lane waits for."""

    job_id: int
    attempt: FailedAttempt
    halts: bool  # else its retry is on the way


def read(view: View) -> dict[str, Any]:
    lock = view.get("lock")
    if not lock:
        raise NotThere("The address names no lane. Find it in the list of lanes.")
    state = view.panel(lambda reader: _read_state(reader, lock, view.now))
    report = state.value.report if state.value else None
    runs = view.read(dashboard.list_runs(lock, ENDED, PAST))
    ended = runs.value.ended if runs.value else []
    line = view.read(dashboard.list_line(lock, NEXT))
    changes = view.read(lanes.list_audit(lock, CHANGES))
    shown = any((ended, line.value, changes.value, runs.problem, line.problem, changes.problem))
    if report is not None and not report.is_known and not shown:
        raise NotThere("There is no lane with this lock: it has no jobs and no changes.")
    head = report.head if report else None
    command = f"queue jobs list --lock {option_value(lock)}"
    return {
        "lock": lock,
        "look_further": f"{command} --search {FURTHER * SEARCHED}",
        # A job that holds its lane until its retry is not in the line.
        "head_waits_aside": head and head.id not in {job.id for job in line.value or []},
        "state_of": state,
        "failure": _get_failure(report) if report else None,
        "runs": runs,
        "picture": draw_runs(ended, report, view.now) if report else None,
        "line": line,
        "changes": changes,
        "head_queue": line.value[0].queue if line.value else None,
    }


def _read_state(reader: PageReader, lock: str, now: datetime) -> State:
    report = reader.run(lanes.report_lane(lock))
    found = reader.run(jobs.explain(report.head.id)) if report.head else []
    reasons = [replace(each, unblock=requote(each.unblock)) for each in found]
    return State(
        report,
        lane_picture.describe_state(report),
        lane_picture.describe_waiting(report, now),
        [_make_headline(line) for line in lane_picture.describe_job(report, now)],
        lane_picture.list_steps(report, reasons, now) if report.is_known else [],
        list(_list_offers(report)),
    )


def _get_failure(report: LaneReport) -> Failure | None:
    failed = report.failed or (report.head if report.state == "retrying" else None)
    if failed is None or not failed.error:
        return None
    at = failed.at if report.failed else None  # the other one's is when it is due
    attempt = FailedAttempt(failed.attempts, None, at, None, failed.error)
    return Failure(failed.id, attempt, halts=report.failed is not None)


def _make_headline(line: str) -> str:
    """Return the line `failed 7 mail.send  why` as `failed job 7 mail.send: why`."""
    return line.strip().replace(" ", " job ", 1).replace("  ", ": ", 1)


def _list_offers(report: LaneReport) -> Iterator[Offer]:
    yield from _offer_retry(report)
    yield from _offer_skip(report)
    if report.stopped == "paused":
        effect = "Nothing waits here now. New jobs can start again."
        if report.waiting:
            effect = f"{_describe_waiting(report)} here. They start again, in order."
        yield Offer("/lane/resume", "pause", "Resume", effect)
    if report.stopped != "halted":
        running = " The running job may finish." if report.head_runs else ""
        instead = " This replaces the current pause." if report.stopped else ""
        effect = f"No other job of this lane starts until it is resumed.{running}{instead}"
        yield Offer("/lane/pause", "pause", "Pause", effect, "pause")
    if report.waiting:
        effect = (
            f"{_describe_waiting(report)} now, and all of them are cancelled. A running job "
            "continues, and scheduled jobs that are not due yet stay. This has no undo: cancelled "
            "jobs can only be retried."
        )
        path = "/lane/cancel-waiting"
        yield Offer(path, "cancel", "Cancel waiting", effect, "name", is_final=True)


def _offer_retry(report: LaneReport) -> Iterator[Offer]:
    count = report.waiting if report.failed else report.behind
    least = " or more" if report.is_cut else ""
    behind = (
        f"the {count:,}{least} behind it follow in order" if count else "nothing waits behind it"
    )
    if report.failed is not None and report.stopped == "halted":
        job = f"Job {report.failed.id} ({visible(report.failed.task)})"
        effect = f"{job} runs again, at the head. Then {behind}."
        yield Offer("/lane/retry-head", "retry", "Retry head", effect)
    elif report.state == "retrying" and report.head is not None:
        job = f"Job {report.head.id} ({visible(report.head.task)})"
        effect = f"{job} is due now, without its delay. Then {behind}."
        yield Offer("/lane/retry-head", "retry", "Retry head now", effect)


def _offer_skip(report: LaneReport) -> Iterator[Offer]:
    if report.stopped == "halted" and report.failed is not None:
        job = report.failed
        effect = (
            f"The lane continues without job {job.id} ({visible(job.task)}), which stays failed. "
            f"{_describe_waiting(report)}, and run without its work."
        )
    elif report.head is not None and not report.head_runs and report.readers is None:
        job = report.head
        effect = (
            f"Job {job.id} ({visible(job.task)}) is cancelled. "
            f"{amount(report.behind, 'job')} behind it keep their order, and run without its work."
        )
    else:
        return
    yield Offer("/lane/skip-head", "cancel", "Skip head", effect, head=job.id, is_final=True)


def _describe_waiting(report: LaneReport) -> str:
    count = report.waiting
    least = " or more" if report.is_cut else ""
    return f"{count:,}{least} {'job waits' if count == 1 else 'jobs wait'}"
