"""Sentry: say which job an event is about, and group its events by task and error.

It imports nothing of Sentry. See docs/sentry.md.
"""

from collections.abc import Mapping
from typing import Any

from inturn.logs import describe_job, running_job

FIELDS = ("job_id", "task", "queue", "lock", "locks", "attempt", "fence")


def add_job(event: Any, hint: Mapping[str, Any]) -> Any:
    """Add the job to an event of Sentry: the failure of a job, or what its code has reported.

    sentry_sdk.init(before_send=add_job)
    """
    job = _find_job(hint)
    if job is not None:
        event["transaction"] = job["task"]
        event.setdefault("tags", {}).update(task=job["task"], queue=job["queue"])
        event.setdefault("contexts", {})["job"] = job
        event.setdefault("fingerprint", ["{{ default }}", job["task"]])
    return event


def _find_job(hint: Mapping[str, Any]) -> dict[str, object] | None:
    """Return the fields of the job that a record of the log is about, or that runs here."""
    found = getattr(hint.get("log_record"), "__dict__", {})
    if "job_id" in found and "fence" in found:
        return {name: found[name] for name in FIELDS if name in found}
    job = running_job.get()
    return None if job is None else describe_job(job)
