"""`queue jobs`: find jobs, ask why they wait, and change them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from inturn.cli.completion import complete_lock, complete_queue, complete_task
from inturn.cli.confirm import yes_option
from inturn.cli.database import Database, with_database
from inturn.cli.exit_status import Conflict
from inturn.cli.formatting import last_line, on_clock, relative, visible, with_times
from inturn.cli.job_argument import (
    change_jobs,
    confirm_jobs,
    error_lines,
    job_argument,
    job_arguments,
    job_not_found,
    make_runnable,
)
from inturn.cli.next_command import complete
from inturn.cli.output import Output, advice, details, more, output_options, remark
from inturn.cli.values import Number

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from inturn.model import Progress, StoredJob
    from inturn.operations.jobs import JobSummary

COUNTED = ALL = 10_000
LIVE = ("todo", "blocked", "limited", "scheduled", "pending", "claimed", "doing")
STATUSES = (*LIVE, "succeeded", "failed", "cancelled", "aborted")


@click.group(
    "jobs",
    epilog="""\b
Examples:
  queue jobs list --status failed --task shop.tasks.send
  queue jobs explain 9001
  queue jobs cancel 9001 9002""",
)
def command() -> None:
    """Find jobs, see why they wait, and change them."""


def filter_options(function: Any) -> Any:
    for option in (
        click.option(
            "--lock", metavar="LOCK", shell_complete=complete_lock, help="Only jobs with this lock."
        ),
        click.option(
            "--task", metavar="TASK", shell_complete=complete_task, help="Only jobs of this task."
        ),
        click.option(
            "--queue",
            metavar="NAME",
            shell_complete=complete_queue,
            help="Only jobs in this queue.",
        ),
        click.option(
            "--status",
            "statuses",
            multiple=True,
            type=click.Choice(STATUSES),
            metavar="STATUS",  # all of them in one word would be wider than a terminal
            help=f"Only jobs with this status: {', '.join(STATUSES)}. Can be repeated.",
        ),
    ):
        function = option(function)
    return function


@command.command("list", epilog="Example: queue jobs list --status failed --queue mail --limit 100")
@filter_options
@click.option("--batch", type=Number(1), metavar="ID", help="Only jobs of this batch.")
@click.option(
    "--limit",
    type=Number(1, COUNTED),
    metavar="N",
    default=50,
    show_default=True,
    help="How many jobs to list at most.",
)
@output_options
@with_database
def list_jobs(database: Database, limit: int, form: str, **asked: Any) -> None:
    """List jobs, live and finished, the newest first.

    If you filter by a live status, only the newest 10,000 live jobs are searched.
    """
    from inturn.operations import jobs

    which = jobs.JobFilter(**asked)
    found = database.run(jobs.list_summaries(which, limit))
    now = database.now()
    columns = {
        "ID": lambda job: str(job.id),
        "STATUS": lambda job: job.status,
        "TASK": lambda job: job.task,
        "QUEUE": lambda job: job.queue,
        "LOCK": lambda job: job.lock or "",
        "ATTEMPTS": lambda job: str(job.attempts),
        "DEFERRED": lambda job: relative(job.created_at, now),
        "WHEN": lambda job: relative(_when(job), now),
        "ERROR": lambda job: "" if job.status == "succeeded" else last_line(job.last_error),
    }
    nothing = "No jobs match." if any(asked.values()) else "There are no jobs."
    Output(form).records(found, columns, nothing, spare=("DEFERRED", "QUEUE", "ATTEMPTS", "WHEN"))
    asks_live = bool(set(LIVE) & set(which.statuses))
    if len(found) < limit and not asks_live:
        return
    if which.batch is not None:
        remark(f"To see how many there are: {complete(f'queue batches show {which.batch}')}")
        return
    count, or_more = database.run(jobs.count_jobs(which, COUNTED))
    if len(found) == limit < count:
        more(count - limit, or_more=or_more)
    elif or_more and asks_live:
        remark(f"There may be more: only the newest {COUNTED:,} live jobs were searched.")


def _when(job: JobSummary) -> datetime | None:
    """Return when a job is due if it is scheduled, or else when it ended or started."""
    if job.status == "scheduled":
        return job.scheduled_at
    return job.finished_at or job.started_at or job.scheduled_at


@command.command(epilog="Example: queue jobs count --status todo --queue mail")
@filter_options
@output_options
@with_database
def count(database: Database, form: str, **asked: Any) -> None:
    """Count jobs, up to 10,000."""
    from inturn.operations import jobs

    number, or_more = database.run(jobs.count_jobs(jobs.JobFilter(**asked), COUNTED))
    Output(form).record(
        {"count": number, "or_more": or_more}, f"{number:,}{' or more' if or_more else ''}"
    )


@command.command(epilog="Example: queue jobs show 9001 --json")
@job_argument
@output_options
@with_database
def show(database: Database, job_id: int, form: str) -> None:
    """Show everything that is stored about a job."""
    import json

    from inturn.operations import jobs

    job = database.run(jobs.get_job(job_id))
    if job is None:
        raise job_not_found(job_id)
    stored = in_words_of_sql(job)
    now = database.now()
    times = ("created_at", "scheduled_at", "expires_at", "started_at", "finished_at")
    facts = {
        "job": f"{job.id} {job.status}",
        "task": visible(job.task_name),
        "arguments": visible(
            getattr(job.task_kwargs, "reason", None)
            or json.dumps(job.task_kwargs, ensure_ascii=False)
        ),
        "queue": visible(job.queue),
        "lock": visible(_locks(job)) if job.lock else None,
        "queueing lock": visible(job.queueing_lock) if job.queueing_lock else None,
        "limit": visible(job.limit) if job.limit else None,
        "group": visible(job.group) if job.group else None,
        "batch": str(job.batch) if job.batch else None,
        "priority": str(job.priority),
        "timeout": stored["timeout"],
        "attempts": str(stored["attempts"]),
        **{
            _title(name, job.status): on_clock(at, now)
            for name in times
            if (at := getattr(job, name))
        },
        "worker": _name_worker(database, job.worker_id),
        "progress": None if job.progress is None else _describe_progress(job.progress, now),
        "result": None
        if job.result is None
        else visible(json.dumps(job.result, ensure_ascii=False)),
    }
    errors = [
        f"  {visible(line)}"
        for number, error in enumerate(job.errors, 1)
        for line in error_lines(number, error, now)
    ]
    title = "earlier attempts:" if job.status == "succeeded" else "errors:"
    Output(form).record(stored, *details(facts), *(["", title, *errors] if errors else []))


def _locks(job: StoredJob) -> str:
    """Return all locks of a job, and which of them it shares."""
    shared = job.shared or []
    locks = job.locks or [job.lock or ""]
    return ", ".join(f"{lock} (shared)" if lock in shared else lock for lock in locks)


def _title(name: str, status: str) -> str:
    """Return what people call a time of a job."""
    return "claimed" if (name, status) == ("started_at", "claimed") else name.removesuffix("_at")


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
    """Return the name of a worker that is still registered, or else its id."""
    from inturn.operations import workers

    if worker_id is None:
        return None
    found = [each for each in database.run(workers.list_workers(ALL)) if each.id == worker_id]
    return f"{visible(found[0].name)} ({worker_id})" if found else f"{worker_id} (gone)"


def in_words_of_sql(job: StoredJob) -> dict[str, Any]:
    """Return the job with the names and the number of attempts that SQL and lists show."""
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
    values["timeout"] = None if job.timeout is None else f"{job.timeout!s:0>8}"
    return values


@command.command(epilog="Example: queue jobs explain 9001")
@job_argument
@output_options
@with_database
def explain(database: Database, job_id: int, form: str) -> None:
    """Say why a job is not running, and what would unblock it."""
    from dataclasses import replace

    from inturn.operations import jobs

    job = database.run(jobs.get_job(job_id))
    if job is None:
        raise job_not_found(job_id)
    output = Output(form)
    now = database.now() if output.for_people else None
    reasons = [
        replace(
            each,
            detail=with_times(each.detail, now),
            unblock=make_runnable(each.unblock, job.lock),
        )
        for each in dict.fromkeys(database.run(jobs.explain(job_id)))
    ]
    lines = [
        advice(f"{each.reason:<16}  ", each.detail, each.unblock, "unblock") for each in reasons
    ]
    output.lines(reasons, lines)


@command.command(epilog="Example: queue jobs retry 9001 9002")
@job_arguments
@output_options
@with_database
def retry(database: Database, job_ids: tuple[int, ...], form: str) -> None:
    """Run finished jobs again, or scheduled jobs now.

    A job keeps its id, and so its place among the jobs with the same lock.
    """
    from inturn.operations import jobs

    def change(job_id: int) -> str:
        is_done = database.run(jobs.retry_job(job_id))
        status = database.run(jobs.get_status(job_id))
        if is_done:
            return str(status or "todo")  # it may have ended by now, without a history
        if status is None:
            raise job_not_found(job_id)
        raise Conflict(
            f"Job {job_id} is {status} and cannot be retried. "
            f"To see what it waits for: queue jobs explain {job_id}"
        )

    change_jobs(job_ids, change, form)


@command.command(
    epilog="""\b
Examples:
  queue jobs cancel 9001 9002
  queue jobs cancel --abort --yes 9001""",
)
@job_arguments
@click.option("--abort", is_flag=True, help="Also ask workers to abort jobs that are running.")
@yes_option
@output_options
@with_database
def cancel(database: Database, job_ids: tuple[int, ...], abort: bool, yes: bool, form: str) -> None:
    """Cancel jobs that have not started."""
    from inturn.operations import jobs

    def change(job_id: int) -> str:
        status = database.run(jobs.cancel_job(job_id, abort))
        if status is None:
            raise job_not_found(job_id)
        if status == "doing" and not abort:
            raise Conflict(
                f"A worker has job {job_id} already. "
                f"To ask it to abort the job: queue jobs cancel --abort {job_id}"
            )
        if status not in ("cancelled", "doing"):
            raise Conflict(f"Job {job_id} has ended already: {status}.")
        return "asked to abort" if status == "doing" else "cancelled"

    confirm_jobs(
        "Cancel",
        database,
        job_ids,
        yes=yes,
        command="queue jobs cancel --yes" + (" --abort" if abort else ""),
    )
    change_jobs(job_ids, change, form)


@command.command(epilog="Example: queue jobs delete 9001")
@job_arguments
@yes_option
@output_options
@with_database
def delete(database: Database, job_ids: tuple[int, ...], yes: bool, form: str) -> None:
    """Delete jobs for good, finished ones too.

    You cannot look at a deleted job, or retry it.
    """
    from inturn.operations import jobs

    def change(job_id: int) -> str:
        if database.run(jobs.delete_job(job_id)):
            return "deleted"
        if database.run(jobs.get_status(job_id)) is None:
            raise job_not_found(job_id)
        raise Conflict(
            f"Job {job_id} is running. To abort it first: queue jobs cancel --abort {job_id}"
        )

    confirm_jobs("Delete", database, job_ids, yes=yes, command="queue jobs delete --yes")
    change_jobs(job_ids, change, form)
