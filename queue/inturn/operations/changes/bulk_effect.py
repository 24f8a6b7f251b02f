"""A bulk change in words: its effect on the order, and what it left unchanged."""

from collections.abc import Iterator

from inturn.formatting import amount, visible
from inturn.operations.changes.bulk import (
    NO_MOVE,
    JobAction,
    JobPreview,
    LaneAction,
    LanePreview,
    Move,
)

# Why a bulk change left jobs or lanes unchanged.
REASONS = {
    "busy": "it was in use, or an open transaction has it locked",
    "running": "a worker has it",
    "retrying": "its lane waits for its next attempt",
    "waiting": "it is already waiting to run",
    "ended": "it had ended",
    "changed": "it had changed since the start",
    "gone": "it was deleted",
    "halted": "it is halted, so none of its jobs start anyway",
    "nothing": "there was nothing to do",
}
VERBS = {
    "retry": "Retry",
    "cancel": "Cancel",
    "delete": "Delete",
    "move": "Move",
    "resume": "Resume",
    "retry-head": "Retry the head of",
    "skip-head": "Skip the head of",
    "pause": "Pause",
}
PAST = {
    "retry": "retried",
    "cancel": "cancelled",
    "delete": "deleted",
    "move": "moved",
    "resume": "resumed",
    "retry-head": "retried the head of",
    "skip-head": "skipped the head of",
    "pause": "paused",
}


def describe_jobs(action: JobAction, seen: JobPreview, move: Move = NO_MOVE) -> list[str]:
    """Return sentences about the lanes of the jobs, for the confirmation."""
    if action == "move":
        return list(_move(seen, move))
    return list(_retry(seen) if action == "retry" else _remove(action, seen))


def _retry(seen: JobPreview) -> Iterator[str]:
    if seen.unlocked:
        yield f"{amount(seen.unlocked, 'job')} without a lock can run immediately."
    if seen.lanes:
        least = " or more" if seen.waiting >= seen.count and seen.more else ""
        wait, those = ("waits", "it is") if seen.waiting == 1 else ("wait", "those are")
        behind = (
            f" before the {amount(seen.waiting, 'job')}{least} that {wait} in them, "
            f"unless {those} older"
            if seen.waiting
            else ""
        )
        run = "runs" if seen.lanes == 1 else "run"
        yield (
            f"{amount(seen.lanes, 'lane')} {run} these jobs at their old places: in the order in "
            f"which they were deferred{behind}."
        )
    if seen.halted_by:
        yield f"{_lanes_are(seen.halted_by)} halted by one of them, and will continue."
    yield from _stopped(seen)


def _remove(action: str, seen: JobPreview) -> Iterator[str]:
    if seen.lanes:
        lose = "loses" if seen.lanes == 1 else "lose"
        stay = f" The {amount(seen.waiting, 'job')} that wait there beside them keep their order."
        yield f"{amount(seen.lanes, 'lane')} {lose} these jobs.{stay if seen.waiting else ''}"
    if seen.halted_by and action == "delete":
        stay = "stays" if seen.halted_by == 1 else "stay"
        yield (
            f"{_lanes_are(seen.halted_by)} halted by one of them, and {stay} "
            "halted. To resume them afterwards: queue lanes resume --state halted --all"
        )
    if action == "delete":
        yield "Deleted jobs can no longer be shown or retried."


def _move(seen: JobPreview, move: Move) -> Iterator[str]:
    if move.priority is not None:
        yield f"They get priority {move.priority}: jobs of higher priority go first."
    if move.queue is not None:
        yield f"Only workers that serve queue {visible(move.queue)} start them."
    if seen.waiting:
        wait = "waits" if seen.waiting == 1 else "wait"
        yield (
            f"In {amount(seen.lanes, 'lane')} {amount(seen.waiting, 'other job')} {wait} beside "
            "them. A lane runs all its jobs by priority, then by age."
        )
    yield from _stopped(seen)


def _stopped(seen: JobPreview) -> Iterator[str]:
    if seen.halted:
        yield (
            f"{_lanes_are(seen.halted)} halted by another job. There, these jobs "
            "wait until the lane continues."
        )
    if seen.paused:
        yield (
            f"{_lanes_are(seen.paused)} paused. There, these jobs wait until the lane is resumed."
        )


def describe_lanes(action: LaneAction, seen: LanePreview) -> list[str]:
    """Return sentences about the jobs in the lanes, for the confirmation."""
    go = "continues" if seen.waiting == 1 else "continue"
    wait = "waits" if seen.waiting == 1 else "wait"
    waiting = f"{amount(seen.waiting, 'job')} that {wait} in them"
    lines = {
        "resume": f"The {waiting} {go}.",
        "retry-head": f"Each lane retries its job before the {waiting}.",
        "skip-head": f"Each lane continues without its job, and the {waiting} {go} behind it.",
        "pause": f"The {waiting} {wait} until you resume them.",
    }
    sentences = [lines[action]] if seen.waiting else []
    if seen.halted and action in ("resume", "skip-head"):
        sentences.append(
            f"{_lanes_are(seen.halted)} halted. The jobs that failed stay failed, "
            "and the jobs behind them run without them."
        )
    if seen.held and action == "pause":
        sentences.append(f"In {amount(seen.held, 'lane')} a running job may finish.")
    return sentences


def _lanes_are(count: int) -> str:
    return f"{amount(count, 'lane')} {'is' if count == 1 else 'are'}"
