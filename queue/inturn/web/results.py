"""The messages that a page shows after an action.

The address carries only a key of this table and a number, so that no link can show another text.
"""

from collections.abc import Mapping

RESULTS = {
    "paused": "Paused the lane. A running job may finish, but no other starts.",
    "resumed": "Resumed the lane.",
    "head-retried": "Job {n} is due now, and the lane waits for it.",
    "head-skipped": "The lane continues without job {n}.",
    "waiting-cancelled": "Cancelled waiting jobs: {n}.",
    "job-retried": "Job {n} waits for a worker again, at its old place.",
    "job-cancelled": "Job {n} is cancelled.",
    "job-aborting": "Asked the worker of job {n} to abort it.",
    "job-deleted": "Job {n} is deleted.",
    "bulk-begun": "The change continues if you leave this page.",
    "bulk-stopping": "The change stops after its current step.",
    "queue-paused": "Paused the queue. Jobs already claimed still run, but no others start.",
    "queue-resumed": "Resumed the queue.",
    "task-paused": "Paused the task. Jobs already claimed still run, but no others start.",
    "task-resumed": "Resumed the task.",
    "everything-paused": "Paused all queues. Jobs already claimed still run.",
    "everything-resumed": "Ended the pause of all queues. Pauses of single queues stay.",
    "limit-set": "Set the limit. Running jobs are not stopped.",
    "limit-removed": "Removed the limit.",
    "batch-closed": "Closed the batch. It ends when all its jobs have ended.",
    "batch-cancelled": "Closed the batch. Cancelled waiting jobs: {n}.",
    "batch-cancelled-some": "Cancelled waiting jobs: {n}. Some remain: cancel again.",
}


def describe_result(query: Mapping[str, str]) -> str | None:
    """Return the message of the address, if any."""
    text = RESULTS.get(query.get("done", ""))
    number = query.get("n", "")
    if text is None or (not number.isdecimal() and "{n}" in text) or len(number) > 19:
        return None
    return text.format(n=f"{int(number or 0)}")
