"""The output of `queue jobs show`."""

import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from inturn.cli.database import Database
from inturn.cli.output.printing import details
from inturn.doctor.failed_attempts import FailedAttempt, read_attempts
from inturn.doctor.job_facts import list_facts
from inturn.formatting import name_locks, on_clock, span, visible
from inturn.model import Progress, StoredJob
from inturn.operations.engine import workers

ALL = 10_000  # workers


def list_details(database: Database, job: StoredJob, now: datetime) -> list[str]:
    """Return the lines about a job: its fields, and the errors of its attempts."""
    write = partial(json.dumps, ensure_ascii=False)
    times = {
        "created": job.created_at,
        "scheduled": job.scheduled_at,
        "expires": job.expires_at,
        "claimed" if job.status == "claimed" else "started": job.started_at,
        "finished": job.finished_at,
    }
    facts = {
        "job": f"{job.id} {job.status}",
        "task": visible(job.task_name),
        "arguments": visible(getattr(job.task_kwargs, "reason", None) or write(job.task_kwargs)),
        "headers": visible(write(job.headers)) if job.headers else None,
        "queue": visible(job.queue),
        "lock": visible(name_locks(job.lock, job.locks, job.shared)) if job.lock else None,
        **{title: visible(text) for title, text in list_facts(job)},
        "attempts": str(in_words_of_sql(job)["attempts"]),
        **{title: on_clock(at, now) for title, at in times.items() if at},
        "worker": _name_worker(database, job.worker_id),
        "progress": None if job.progress is None else _describe_progress(job.progress, now),
        "result": None if job.result is None else visible(write(job.result)),
    }
    errors = [
        f"  {visible(line)}"
        for attempt in read_attempts(job)
        for line in _error_lines(attempt, now)
    ]
    title = "earlier attempts:" if job.status == "succeeded" else "errors:"
    return [*details(facts), *(["", title, *errors] if errors else [])]


def _error_lines(attempt: FailedAttempt, now: datetime) -> Iterator[str]:
    """Yield the lines about a failed attempt: which one, when, where and why."""
    when = f" failed {on_clock(attempt.at, now)}" if attempt.at else ""
    length = "" if attempt.lasted is None else f" after {span(attempt.lasted)}"
    where = f" on worker {attempt.worker}" if attempt.worker else ""
    first, *others = attempt.error.splitlines() or [""]
    yield f"attempt {attempt.number}{when}{length}{where}: {first}"
    yield from (f"    {line}" for line in others)


def _describe_progress(progress: Progress, now: datetime) -> str:
    """Return `37 of 100 (37 %) at 14:32:10Z (3s ago): page 38`."""
    amount = f"{progress.done:,}"
    if progress.total is not None:
        amount += f" of {progress.total:,}"
    if progress.total:
        amount += f" ({100 * progress.done // progress.total} %)"
    text = f": {visible(progress.text)}" if progress.text else ""
    return f"{amount} at {on_clock(progress.updated_at, now)}{text}"


def _name_worker(database: Database, worker_id: UUID | None) -> str | None:
    """Return the worker's name if it is still registered, or else its id."""
    if worker_id is None:
        return None
    found = [each for each in database.run(workers.list_workers(ALL)) if each.id == worker_id]
    return f"{visible(found[0].name)} ({worker_id})" if found else f"{worker_id} (gone)"


def in_words_of_sql(job: StoredJob) -> dict[str, Any]:
    """Return the job with the field names and the number of attempts as SQL and lists show them."""
    names = {
        "task_name": "task",
        "task_kwargs": "args",
        "abort_requested": "abort",
        "limit": "limit_key",
        "group": "group_key",
        "batch": "batch_id",
    }
    values = {names.get(each.name, each.name): getattr(job, each.name) for each in fields(job)}
    values["attempts"] += job.status in ("claimed", "doing")
    return values
