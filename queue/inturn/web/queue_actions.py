"""Actions on queues, tasks, limits and batches."""

from inturn.errors import BadArgument
from inturn.formatting import visible
from inturn.model import BatchProgress
from inturn.operations.changes import limits, pauses
from inturn.operations.engine import batches
from inturn.web.actions import (
    Action,
    Change,
    Done,
    Refused,
    get_length,
    get_reason,
    get_target,
    require,
)
from inturn.whole_numbers import read_id

MOST_STEPS = 1000  # of cancelling a batch, in one request


def pause_queue(change: Change) -> Done:
    """Pause a queue, for some hours or until it is resumed."""
    name = require(change, "name")
    _pause(change, name)
    return Done("queue-paused", "/queue", {"name": name})


def pause_everything(change: Change) -> Done:
    """Pause all queues, if the person has typed the word."""
    if change.form.get("confirm", "").strip().lower() != "everything":
        raise Refused("To pause all queues, type the word: everything")
    _pause(change, None)
    return Done("everything-paused", "/queues")


def resume_queue(change: Change) -> Done:
    name = get_target(change, "name")
    if not name or not change.run(pauses.resume_queue(name, change.by)):
        raise Refused("This queue is not paused individually.")
    return Done("queue-resumed", "/queue", {"name": name})


def resume_everything(change: Change) -> Done:
    """End the pause of all queues. Those of single queues stay."""
    if not change.run(pauses.resume_queue(None, change.by)):
        raise Refused("There is no pause of all queues.")
    return Done("everything-resumed", "/queues")


def pause_task(change: Change) -> Done:
    """Pause a task, for some hours or until it is resumed."""
    name = require(change, "name")
    change.run(pauses.pause_task(name, get_reason(change), None, change.by, get_length(change)))
    return Done("task-paused", "/task", {"name": name})


def resume_task(change: Change) -> Done:
    name = get_target(change, "name")
    if not name or not change.run(pauses.resume_task(name, change.by)):
        raise Refused("This task is not paused.")
    return Done("task-resumed", "/task", {"name": name})


def set_limit(change: Change) -> Done:
    """Set a limit: a new one, or the one in the address."""
    pattern = get_target(change, "pattern") or change.form.get("pattern", "").strip()
    concurrency, burst = _read_number(change, "concurrency"), _read_number(change, "burst")
    rate = change.form.get("rate", "").strip() or None
    change.run(limits.set_limit(pattern, concurrency, rate, burst, change.by))
    return Done("limit-set", "/limits")


def remove_limit(change: Change) -> Done:
    if not change.run(limits.remove_limit(get_target(change, "pattern"), change.by)):
        raise Refused("This limit does not exist.")
    return Done("limit-removed", "/limits")


def close_batch(change: Change) -> Done:
    """Close a batch, so that it ends once all its jobs have ended."""
    found = _get_batch(change)
    if found.state != "open":
        raise Refused(f"This batch is already {found.state}.", _get_address(found))
    change.run(batches.close_batch(found.id, change.by))
    return Done("batch-closed", "/batch", {"id": str(found.id)})


def cancel_batch(change: Change) -> Done:
    """Cancel the waiting jobs and the callback of a batch, if the person has typed its name."""
    found = _get_batch(change)
    if found.state == "ended":
        raise Refused("This batch has already ended.", _get_address(found))
    if change.form.get("confirm", "") != visible(found.name):
        raise Refused("The name you typed is not the batch's.", _get_address(found))
    abort = change.form.get("abort") == "yes"
    cancelled, last = 0, 0
    for _ in range(MOST_STEPS):
        now, _, next = change.run(batches.cancel_some(found.id, last, abort, change.by))
        cancelled += now
        if next is None:
            return Done("batch-cancelled", "/batch", {"id": str(found.id)}, cancelled)
        last = next
    return Done("batch-cancelled-some", "/batch", {"id": str(found.id)}, cancelled)


def _pause(change: Change, name: str | None) -> None:
    change.run(pauses.pause_queue(name, get_reason(change), None, change.by, get_length(change)))


def _get_batch(change: Change) -> BatchProgress:
    id = read_id(get_target(change, "id"))
    found = change.run(batches.show_batch(id)) if id else None
    if found is None:
        raise Refused("This batch does not exist.")
    return found


def _get_address(batch: BatchProgress) -> str:
    return f"/batch?id={batch.id}"


def _read_number(change: Change, name: str) -> int | None:
    text = change.form.get(name, "").strip()
    if not text:
        return None
    number = read_id(text)
    if number is None:
        raise BadArgument(name, "is not a whole number")
    return number


QUEUE_ACTIONS = (
    Action("/queues/pause", "pause", pause_queue, "/queues"),
    Action("/queues/pause-everything", "pause", pause_everything, "/queues"),
    Action("/queues/resume", "pause", resume_queue, "/queues"),
    Action("/queues/resume-everything", "pause", resume_everything, "/queues"),
    Action("/tasks/pause", "pause", pause_task, "/tasks"),
    Action("/tasks/resume", "pause", resume_task, "/tasks"),
    Action("/limits/set", "limit", set_limit, "/limits"),
    Action("/limits/remove", "limit", remove_limit, "/limits"),
    Action("/batches/close", "batch", close_batch, "/batches"),
    Action("/batches/cancel", "batch", cancel_batch, "/batches"),
)
