"""A pause of a queue, of all queues, or of a task, in words, and the command that ends it."""

from datetime import datetime

from inturn.formatting import argument, span, visible
from inturn.operations.queues import PausedQueue
from inturn.operations.tasks import PausedTask


def describe_pause(pause: PausedQueue | PausedTask, now: datetime) -> str:
    """Return what is paused, for how long, by whom and why."""
    end = f"{span(pause.until - now)} to go" if pause.until else "until resumed"
    why = f": {visible(pause.reason)}" if pause.reason else ""
    return f"{_name(pause)} (for {span(now - pause.since)}, {end}, by {visible(pause.by)}{why})"


def get_resume_command(pause: PausedQueue | PausedTask) -> str:
    if isinstance(pause, PausedTask):
        return f"queue tasks resume {argument(pause.task)}"
    return f"queue queues resume {'--all' if pause.queue is None else argument(pause.queue)}"


def _name(pause: PausedQueue | PausedTask) -> str:
    if isinstance(pause, PausedTask):
        return f"task {visible(pause.task)}"
    return "all queues" if pause.queue is None else f"queue {visible(pause.queue)}"
