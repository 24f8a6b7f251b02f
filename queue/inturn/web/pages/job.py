"""Job: why it does not run, its timeline, attempts and actions."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from inturn.doctor.failed_attempts import read_attempts
from inturn.doctor.job_facts import REPEATED, list_facts
from inturn.formatting import argument, at_least, option_value, requote
from inturn.model import Reason, StoredJob
from inturn.operations.changes import jobs, lanes
from inturn.operations.changes.jobs import JobSummary
from inturn.operations.reading import dashboard
from inturn.states import ENDED, TAKEN, WAITING
from inturn.web.jobs.timeline import draw_timeline
from inturn.web.page import NotThere, Offer, View
from inturn.web.reading import PageReader
from inturn.web.redaction import redact, show_arguments
from inturn.web.terms import show
from inturn.whole_numbers import read_id

NEIGHBOURS = 10
CHANGES = 10


def read(view: View) -> dict[str, Any]:
    text = view.request.path_params["job_id"]
    job_id = read_id(text)
    if job_id is None:
        raise NotThere(f"{show(text)} is not the id of a job.")
    found = view.read(jobs.get_job(job_id))
    job = found.value
    if job is None and found.problem is None:
        raise NotThere(
            f"There is no job {job_id}: it was never deferred, is not committed yet, was deleted, "
            "or ended without history."
        )
    line = view.panel(lambda reader: _read_line(reader, job))
    return {
        "job_id": job_id,
        "found": found,
        "job": job,
        "reasons": view.panel(lambda reader: _read_reasons(reader, job_id)),
        "line": line,
        "changes": view.read(lanes.list_job_audit(job_id, CHANGES)),
        "offers": list(_list_offers(job, line.value or [])) if job else [],
        "timeline": draw_timeline(job, view.now) if job else [],
        "attempts": read_attempts(job) if job else [],
        "facts": list_facts(job) if job else [],
        "worker": _name_worker(view, job) if job else None,
        **(_show_data(job, view) if job and view.access.may("view_args") else {}),
    }


def _read_reasons(reader: PageReader, job_id: int) -> list[Reason]:
    found = dict.fromkeys(reader.run(jobs.explain(job_id)))
    return [replace(each, unblock=requote(each.unblock)) for each in found]


def _read_line(reader: PageReader, job: StoredJob | None) -> list[JobSummary]:
    if job is None or job.lock is None or job.status in ENDED:
        return []
    return reader.run(dashboard.list_line(job.lock, NEIGHBOURS))


def _list_offers(job: StoredJob, line: list[JobSummary]) -> Iterator[Offer]:
    others = [each for each in line if each.id != job.id]
    count = at_least(len(others), len(line) >= NEIGHBOURS)
    noun = "job" if len(others) == 1 else "jobs"
    waits = f" {count} other {noun} of its lane keep their order." if others else ""
    path = f"/jobs/{job.id}"
    if job.status in ENDED:
        place = "It can run immediately, because it has no lock."
        if job.lock:
            place = "It keeps its place in its lane, ahead of jobs deferred later."
        yield Offer(f"{path}/retry", "retry", "Retry", f"The job runs again. {place}")
        effect = "It can no longer be shown or retried."
        yield Offer(f"{path}/delete", "delete", "Delete", effect, is_final=True)
    if job.status == "scheduled":
        yield Offer(f"{path}/retry", "retry", "Run now", f"The job is due now.{waits}")
    if job.status in WAITING:
        effect = f"The job ends without running.{waits}"
        yield Offer(f"{path}/cancel", "cancel", "Cancel", effect, is_final=True)
    if job.status in TAKEN:
        effect = (
            "Asks its worker to abort it. An async task is cancelled, and a sync task has to check "
            f"should_abort().{waits}"
        )
        yield Offer(f"{path}/abort", "cancel", "Abort", effect, is_final=True)


def _show_data(job: StoredJob, view: View) -> dict[str, Any]:
    arguments = show_arguments(job.task_name, job.task_kwargs, view.redact)
    return {
        "arguments": arguments,
        "result_value": redact(job.result),
        "headers": redact(job.headers),
        "command": _make_command(job, arguments),
    }


def _make_command(job: StoredJob, arguments: Any) -> str:
    """Return a command that defers the same job again, without secrets."""
    values = json.dumps(arguments, ensure_ascii=False, default=str)
    words = ["queue defer"]
    locks = job.locks or ([] if job.lock is None else [job.lock])
    for lock in locks:
        words.append(f"--{'shared' if lock in (job.shared or ()) else 'lock'} {option_value(lock)}")
    words.append(f"--queue {option_value(job.queue)}")
    words += [f"--{name} {option_value(text)}" for name, text in list_facts(job, REPEATED)]
    if job.priority:
        words.append(f"--priority {job.priority}")
    return " ".join([*words, argument(job.task_name), option_value(values)])


def _name_worker(view: View, job: StoredJob) -> str | None:
    if job.worker_id is None:
        return None
    workers = view.header.value.workers if view.header.value else []
    names = (each.name for each in workers if each.id == job.worker_id)
    return next(names, f"{job.worker_id} (gone)")
