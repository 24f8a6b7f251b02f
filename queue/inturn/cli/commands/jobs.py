"""`queue jobs`: find jobs, ask why they wait, and change them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from inturn.cli.bulk import bulk_options
from inturn.cli.confirm import yes_option
from inturn.cli.database import Database, with_database
from inturn.cli.exit_status import Conflict
from inturn.cli.job_argument import (
    change_jobs,
    confirm_jobs,
    error_lines,
    job_argument,
    job_arguments,
    job_not_found,
    make_runnable,
)
from inturn.cli.job_bulk import (
    change_matching,
    filter_options,
    is_bulk,
    make_filter,
)
from inturn.cli.job_pages import say_what_is_left_out
from inturn.cli.output import Output, advice, details, output_options
from inturn.cli.values import Number
from inturn.formatting import last_line, on_clock, relative, visible, with_times

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from inturn.model import Progress, StoredJob
    from inturn.operations.jobs import JobSummary

COUNTED = ALL = 10_000
MOST_SEARCHED = 100_000_000


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


@command.command("list", epilog="Example: queue jobs list --status failed --queue mail --limit 100")
@filter_options
@click.option(
    "--limit",
    type=Number(1, COUNTED),
    metavar="N",
    default=50,
    show_default=True,
    help="How many jobs to list at most.",
)
@click.option("--before-id", type=Number(1), metavar="ID", help="Only older jobs: the next page.")
@click.option(
    "--search",
    type=Number(1, MOST_SEARCHED),
    metavar="N",
    default=COUNTED,
    show_default=True,
    help="How many ended jobs to search at most, if you filter.",
)
@output_options
@with_database
def list_jobs(database: Database, limit: int, form: str, **asked: Any) -> None:
    """List jobs, live and finished, the newest first.

    If you filter by a live status, only the newest 10,000 live jobs are searched. Of the jobs that
    have ended, a filter searches the newest --search.
    """
    from inturn.operations import jobs

    which = make_filter(database, **asked)
    found = database.run(jobs.list_summaries(which, limit))
    now = database.now()
    columns = {
        "ID": lambda job: str(job.id),
        "STATUS": lambda job: job.status,
        "TASK": lambda job: job.task,
        "QUEUE": lambda job: job.queue,
        "LOCK": _locks,
        "ATTEMPTS": lambda job: str(job.attempts),
        "DEFERRED": lambda job: relative(job.created_at, now),
        "WHEN": lambda job: relative(_when(job), now),
        "ERROR": lambda job: "" if job.status == "succeeded" else last_line(job.last_error),
    }
    asked = {name: value for name, value in asked.items() if name != "search"}
    nothing = "No jobs match." if any(asked.values()) else "There are no jobs."
    Output(form).records(found, columns, nothing, spare=("DEFERRED", "QUEUE", "ATTEMPTS", "WHEN"))
    say_what_is_left_out(database, which, found, limit)


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

    number, or_more = database.run(jobs.count_jobs(make_filter(database, **asked), COUNTED))
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


def _locks(job: StoredJob | JobSummary) -> str:
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

    from inturn.model import Reason
    from inturn.operations import jobs, maintenance

    job = database.run(jobs.get_job(job_id))
    if job is None:
        raise job_not_found(job_id)
    mismatch = database.run(maintenance.find_mismatch(database.schema))
    first = [] if mismatch is None else [Reason("schema mismatch", *mismatch)]
    output = Output(form)
    now = database.now() if output.for_people else None
    reasons = [
        replace(
            each,
            detail=with_times(each.detail, now),
            unblock=make_runnable(each.unblock),
        )
        for each in dict.fromkeys([*first, *database.run(jobs.explain(job_id))])
    ]
    lines = [
        advice(f"{each.reason:<16}  ", each.detail, each.unblock, "unblock") for each in reasons
    ]
    output.lines(reasons, lines)


@command.command(
    epilog="""\b
Examples:
  queue jobs retry 9001 9002
  queue jobs retry --task mail.send --error Timeout --older-than 1h --dry-run""",
)
@job_arguments
@filter_options
@bulk_options
@yes_option
@output_options
@with_database
def retry(database: Database, job_ids: tuple[int, ...], yes: bool, form: str, **asked: Any) -> None:
    """Run finished jobs again, or scheduled jobs now.

    A job keeps its id, and so its place among the jobs with the same lock. Instead of IDs, you can
    give filters. Then all failed jobs that match are retried, unless you name a status.
    """
    from inturn.operations import bulk, jobs

    if is_bulk(job_ids, asked):
        change_matching(database, "retry", asked, form, yes=yes)
        return
    # One by one, a job that halted its lane would go before an older one.
    retried = database.run(bulk.retry_together(job_ids)) if len(job_ids) > 1 else set()

    def change(job_id: int) -> str:
        is_done = job_id in retried or database.run(jobs.retry_job(job_id))
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
  queue jobs cancel --abort --yes 9001
  queue jobs cancel --queue mail --lock-prefix customer: --dry-run""",
)
@job_arguments
@click.option("--abort", is_flag=True, help="Also ask workers to abort jobs that are running.")
@filter_options
@bulk_options
@yes_option
@output_options
@with_database
def cancel(
    database: Database,
    job_ids: tuple[int, ...],
    abort: bool,
    yes: bool,
    form: str,
    **asked: Any,
) -> None:
    """Cancel jobs that have not started.

    Instead of IDs, you can give filters. A lane then loses its last job first.
    """
    from inturn.operations import jobs

    if is_bulk(job_ids, asked):
        change_matching(database, "cancel", asked, form, yes=yes, abort=abort)
        return

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


@command.command(
    epilog="""\b
Examples:
  queue jobs delete 9001
  queue jobs delete --status failed --older-than 30d --dry-run""",
)
@job_arguments
@filter_options
@bulk_options
@yes_option
@output_options
@with_database
def delete(
    database: Database, job_ids: tuple[int, ...], yes: bool, form: str, **asked: Any
) -> None:
    """Delete jobs for good, finished ones too.

    You cannot look at a deleted job, or retry it. Instead of IDs, you can give filters. Then all
    ended jobs that match are deleted, unless you name a status.
    """
    from inturn.operations import jobs

    if is_bulk(job_ids, asked):
        change_matching(database, "delete", asked, form, yes=yes)
        return

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
