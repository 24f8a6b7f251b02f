"""A pause of a lane, a queue, all queues or a task, in words, and the command that ends it."""

from datetime import datetime

from inturn.formatting import argument, span, visible
from inturn.operations.changes.lanes import PausedLane
from inturn.operations.changes.pauses import PausedQueue, PausedTask

Pause = PausedLane | PausedQueue | PausedTask


def describe_pause(pause: Pause, now: datetime) -> str:
    """Return what is paused, for how long, by whom and why."""
    kind, name = _name(pause)
    what = f"all {kind}s" if name is None else f"{kind} {visible(name)}"
    end = f"{span(pause.until - now)} left" if pause.until else "until resumed"
    why = f": {visible(pause.reason)}" if pause.reason else ""
    return f"{what} (for {span(now - pause.since)}, {end}, by {visible(pause.by)}{why})"


def get_resume_command(pause: Pause) -> str:
    kind, name = _name(pause)
    return f"queue {kind}s resume {'--all' if name is None else argument(name)}"


def _name(pause: Pause) -> tuple[str, str | None]:
    """Return the kind of what is paused, and its name, or None for all."""
    if isinstance(pause, PausedLane):
        return "lane", pause.lock
    if isinstance(pause, PausedTask):
        return "task", pause.task
    return "queue", pause.queue
