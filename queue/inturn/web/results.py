"""What a page says after an action.

The address carries a word of this list and a number, so that no link can make a page say anything
else.
"""

from __future__ import annotations

from collections.abc import Mapping

RESULTS = {
    "paused": "The lane is paused. A job that runs may end, and no other starts.",
    "resumed": "The lane goes on.",
    "head-retried": "Job {n} is due now, and the lane waits for it.",
    "head-skipped": "The lane goes on without job {n}.",
    "waiting-cancelled": "Waiting jobs that were cancelled: {n}.",
    "job-retried": "Job {n} waits for a worker again, at its old place.",
    "job-cancelled": "Job {n} is cancelled.",
    "job-aborting": "The worker of job {n} was asked to end it.",
    "job-deleted": "Job {n} is deleted.",
    "bulk-begun": "The change goes on if you leave this page.",
    "bulk-stopping": "The change stops after its step.",
    "queue-paused": "The queue is paused. Jobs that workers have may end, and no other starts.",
    "queue-resumed": "The queue goes on.",
    "task-paused": "The task is paused. Jobs that workers have may end, and no other starts.",
    "task-resumed": "The task goes on.",
    "everything-paused": "All queues are paused. Jobs that workers have may end.",
    "everything-resumed": "The pause of all queues is over. Those of single queues stay.",
    "limit-set": "The limit is set. It ends no job that runs.",
    "limit-removed": "The limit is removed.",
    "batch-closed": "The batch is closed. It ends when no job of it is left.",
    "batch-cancelled": "The batch is closed. Waiting jobs of it that were cancelled: {n}.",
    "batch-cancelled-some": "Waiting jobs that were cancelled: {n}. Others are left: cancel again.",
}


def describe_result(query: Mapping[str, str]) -> str | None:
    """Return what an action has done, if the address says so."""
    text = RESULTS.get(query.get("done", ""))
    number = query.get("n", "")
    if text is None or (not number.isdecimal() and "{n}" in text) or len(number) > 19:
        return None
    return text.format(n=f"{int(number or 0)}")
