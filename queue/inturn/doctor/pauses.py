"""A pause of a lane, a queue, all queues or a task, in words, and the command that ends it."""

from datetime import datetime

from inturn.formatting import argument, span, visible
from inturn.operations.changes.lanes import PausedLane
from inturn.operations.changes.pauses import PausedQueue, PausedTask

Pause = PausedLane | PausedQueue | PausedTask


def describe_pause(pause: Pause, now: datetime) -> str:
    """Return what is paused, for how long, by whom and why."""
    end = f"{span(pause.until - now)} left" if pause.until else "until resumed"
    why = f": {visible(pause.reason)}" if pause.reason else ""
    return f"{_name(pause)} (for {span(now - pause.since)}, {end}, by {visible(pause.by)}{why})"


def get_resume_command(pause: Pause) -> str:
    if isinstance(pause, PausedLane):
        return f"queue lanes resume {argument(pause.lock)}"
    if isinstance(pause, PausedTask):
        return f"queue tasks resume {argument(pause.task)}"
    return f"queue queues resume {'--all' if pause.queue is None else argument(pause.queue)}"


def _name(pause: Pause) -> str:
    if isinstance(pause, PausedLane):
        return f"lane {visible(pause.lock)}"
    if isinstance(pause, PausedTask):
        return f"task {visible(pause.task)}"
    return "all queues" if pause.queue is None else f"queue {visible(pause.queue)}"
