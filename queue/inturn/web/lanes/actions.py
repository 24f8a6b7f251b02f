"""The actions of a lane, and how each affects the order."""

from collections.abc import Iterator
from typing import NamedTuple

from inturn.formatting import amount, visible
from inturn.operations.changes.lanes import LaneReport


class Offer(NamedTuple):
    """An action on a page, with its effect in words."""

    path: str
    permission: str
    title: str
    effect: str
    field: str | None = None  # what the form asks for: a pause, or the lane's name
    head: int | None = None  # the job that the person saw
    is_final: bool = False


def list_offers(report: LaneReport) -> Iterator[Offer]:
    """Yield the actions that make sense for a lane."""
    yield from _offer_retry(report)
    yield from _offer_skip(report)
    if report.stopped == "paused":
        yield Offer(
            "/lane/resume",
            "pause",
            "Resume",
            f"{_describe_waiting(report)} here. They start again, in order."
            if report.waiting
            else "Nothing waits here now. New jobs can start again.",
        )
    if report.stopped != "halted":
        running = " The running job may finish." if report.head_runs else ""
        instead = " This replaces the current pause." if report.stopped else ""
        effect = f"No other job of this lane starts until it is resumed.{running}{instead}"
        yield Offer("/lane/pause", "pause", "Pause", effect, "pause")
    if report.waiting:
        yield Offer(
            "/lane/cancel-waiting",
            "cancel",
            "Cancel waiting",
            f"{_describe_waiting(report)} now, and all of them are cancelled. A running job "
            "continues, and scheduled jobs that are not due yet stay. This has no undo: cancelled "
            "jobs can only be retried.",
            "name",
            is_final=True,
        )


def _offer_retry(report: LaneReport) -> Iterator[Offer]:
    behind = _describe_behind(report)
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


def _describe_behind(report: LaneReport) -> str:
    count = report.waiting if report.failed else report.behind
    if not count:
        return "nothing waits behind it"
    least = " or more" if report.is_cut else ""
    return f"the {count:,}{least} behind it follow in order"


def _describe_waiting(report: LaneReport) -> str:
    count = report.waiting
    least = " or more" if report.is_cut else ""
    return f"{count:,}{least} {'job waits' if count == 1 else 'jobs wait'}"
