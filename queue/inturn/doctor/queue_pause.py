"""A pause of a queue, or of all queues, in words, and the command that ends it."""

from datetime import datetime

from inturn.formatting import argument, span, visible
from inturn.operations.queues import PausedQueue


def describe_pause(pause: PausedQueue, now: datetime) -> str:
    """Return what is paused, for how long, by whom and why."""
    name = "any queue" if pause.queue is None else f"queue {visible(pause.queue)}"
    end = f"{span(pause.until - now)} to go" if pause.until else "until resumed"
    why = f": {visible(pause.reason)}" if pause.reason else ""
    return f"{name} (for {span(now - pause.since)}, {end}, by {visible(pause.by)}{why})"


def get_resume_command(pause: PausedQueue) -> str:
    return f"queue queues resume {'--all' if pause.queue is None else argument(pause.queue)}"
