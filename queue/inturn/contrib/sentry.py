"""Sentry: add the job to events, and group them by task and error.

It does not import Sentry. See docs/sentry.md.
"""

from collections.abc import Mapping
from typing import Any

from inturn.logs import describe_job, running_job

FIELDS = ("job_id", "task", "queue", "lock", "locks", "attempt", "fence")


def add_job(event: Any, hint: Mapping[str, Any]) -> Any:
    """Add the job to a Sentry event: the failure of a job, or anything that its code reports.

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
    """Return the fields of the job that a log record is about, or that is running here."""
    found = getattr(hint.get("log_record"), "__dict__", {})
    if "job_id" in found and "fence" in found:
        return {name: found[name] for name in FIELDS if name in found}
    job = running_job.get()
    return None if job is None else describe_job(job)
