"""`queue jobs`: find jobs, see why they wait, and change them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from inturn.arguments import check_queue
from inturn.cli.arguments.completion import complete_queue
from inturn.cli.arguments.job import (
    change_jobs,
    confirm_jobs,
    get_job,
    job_argument,
    job_not_found,
    spell_reason,
)
from inturn.cli.arguments.lane import list_changes
from inturn.cli.bulk.jobs import (
    COUNTED,
    change_matching,
    change_options,
    filter_options,
    is_bulk,
    make_filter,
    say_what_is_left_out,
)
from inturn.cli.database import Database, with_database
from inturn.cli.job_details import in_words_of_sql, list_details
from inturn.cli.output.exit_status import Conflict
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, advice, limit_option, output_options, remark
from inturn.cli.values import ID, PRIORITY, Number
from inturn.formatting import last_line, name_locks, relative, visible
from inturn.model import Reason
from inturn.operations.changes import bulk, jobs, lanes
from inturn.operations.changes.bulk_effect import REASONS
from inturn.operations.changes.jobs import JobSummary
from inturn.operations.reading import failures

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
@limit_option("The maximum number of jobs to list.", most=COUNTED, default=50)
@click.option("--before-id", type=ID, help="Only older jobs: the next page.")
@click.option(
    "--search",
    type=Number(1, MOST_SEARCHED),
    default=COUNTED,
    show_default=True,
    help="With a filter, how many live and how many ended jobs to search.",
)
@output_options
@with_database
def list_jobs(database: Database, limit: int, form: str, **asked: Any) -> None:
    """List live and ended jobs, newest first.

    A filter searches the newest --search live jobs and the newest --search ended jobs. Where an
    index fits, it searches further: it finds the jobs of a lane or a batch, and rare ones. The
    output tells you if some may be missing.
    """
    which = make_filter(database, **asked)
    found = database.run(jobs.list_summaries(which, limit))
    now = database.now()
    columns = {
        "ID": lambda job: str(job.id),
        "STATUS": lambda job: job.status,
        "TASK": lambda job: job.task,
        "QUEUE": lambda job: job.queue,
        "LOCK": lambda job: name_locks(job.lock, job.locks, job.shared),
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
    """Return the due time of a scheduled job, or else when it ended or started."""
    if job.status == "scheduled":
        return job.scheduled_at
    return job.finished_at or job.started_at or job.scheduled_at


@command.command(epilog="Example: queue jobs count --status todo --queue mail")
@filter_options
@output_options
@with_database
def count(database: Database, form: str, **asked: Any) -> None:
    """Count jobs, up to 10,000.

    A filter searches the same jobs as in queue jobs list. "or more" after the number means that
    some may be missing.
    """
    number, or_more = database.run(jobs.count_jobs(make_filter(database, **asked), COUNTED))
    counted = {"count": number, "or_more": or_more}
    Output(form).record(counted, _sum_up([counted]), total=_sum_up)


def _sum_up(counted: Sequence[Mapping[str, int]]) -> str:
    or_more = any(each["or_more"] for each in counted)
    return f"{sum(each['count'] for each in counted):,}{' or more' if or_more else ''}"


@command.command(epilog="Example: queue jobs show 9001 --json")
@job_argument
@output_options
@with_database
def show(database: Database, job_id: int, form: str) -> None:
    """Show all stored data of a job, and its latest changes by people."""
    job = get_job(database, job_id)
    now = database.now()
    entries = database.run(lanes.list_job_audit(job_id, 10))
    lines = [*list_details(database, job, now), *list_changes(entries, now)]
    Output(form).record({**in_words_of_sql(job), "audit": entries}, *lines)


@command.command(epilog="Example: queue jobs explain 9001")
@job_argument
@output_options
@with_database
def explain(database: Database, job_id: int, form: str) -> None:
    """Explain why a job is not running, and what would unblock it."""
    from inturn.operations.engine import maintenance

    database.refuse_to_wait()
    get_job(database, job_id)
    mismatch = database.run(maintenance.find_mismatch(database.schema))
    first = [] if mismatch is None else [Reason("schema mismatch", *mismatch)]
    now = database.now() if form == "table" else None
    found = dict.fromkeys([*first, *database.run(jobs.explain(job_id))])
    reasons = [spell_reason(each, now) for each in found]
    lines = [
        advice(f"{each.reason:<16}  ", each.detail, each.unblock, "unblock") for each in reasons
    ]
    Output(form).lines(reasons, lines)


@command.command(
    epilog="""\b
Examples:
  queue jobs retry 9001 9002
  queue jobs retry --task mail.send --error Timeout --older-than 1h --dry-run""",
)
@change_options
def retry(
    database: Database,
    job_ids: tuple[int, ...],
    by: str | None,
    yes: bool,
    form: str,
    **asked: Any,
) -> None:
    """Run ended jobs again, or scheduled jobs now.

    A job keeps its id, and thus its place among the jobs with the same lock. Instead of IDs, you
    can give filters, which select failed jobs unless you give --status.
    """
    if is_bulk(job_ids, asked):
        change_matching(database, "retry", asked, form, by=by, yes=yes)
        return
    person = database.name_person(by)
    # One by one, a job that halted its lane would overtake an older one.
    several = len(job_ids) > 1
    outcomes = database.run(bulk.change_chosen("retry", job_ids, person)) if several else {}

    def change(job_id: int) -> str:
        is_done = outcomes.get(job_id) == "done" or database.run(jobs.retry_job(job_id, person))
        status = database.run(jobs.get_status(job_id))
        if is_done:
            return str(status or "todo")  # it may have ended already, without a history
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
@click.option("--abort", is_flag=True, help="Also ask workers to abort jobs that are running.")
@change_options
def cancel(
    database: Database,
    job_ids: tuple[int, ...],
    abort: bool,
    by: str | None,
    yes: bool,
    form: str,
    **asked: Any,
) -> None:
    """Cancel jobs that have not started.

    Instead of IDs, you can give filters. Each lane then loses its last job first.
    """
    if is_bulk(job_ids, asked):
        change_matching(database, "cancel", asked, form, by=by, yes=yes, abort=abort)
        return
    person = database.name_person(by)

    def change(job_id: int) -> str:
        status = database.run(jobs.cancel_job(job_id, abort, person))
        if status is None:
            raise job_not_found(job_id)
        if status == "doing" and not abort:
            raise Conflict(
                f"A worker has already claimed job {job_id}. "
                f"To ask it to abort the job: queue jobs cancel --abort {job_id}"
            )
        if status not in ("cancelled", "doing"):
            raise Conflict(f"Job {job_id} has already ended: {status}.")
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
  queue jobs move --task ops.nap --priority -10
  queue jobs move 9001 9002 --to-queue slow""",
)
@click.option("--priority", type=PRIORITY, help="The new priority. Higher priorities run first.")
@click.option("--to-queue", metavar="NAME", shell_complete=complete_queue, help="The new queue.")
@change_options
def move(
    database: Database,
    job_ids: tuple[int, ...],
    priority: int | None,
    to_queue: str | None,
    by: str | None,
    yes: bool,
    form: str,
    **asked: Any,
) -> None:
    """Give waiting jobs another priority or queue.

    A lane runs its jobs in their new order. Running jobs stay as they are, and so do jobs whose
    lane waits for their next attempt. Instead of IDs, you can give filters.
    """
    if priority is None and to_queue is None:
        raise click.UsageError("Give --priority, --to-queue, or both.")
    target = bulk.Move(priority, None if to_queue is None else check_queue(to_queue))
    if is_bulk(job_ids, asked):
        change_matching(database, "move", asked, form, by=by, yes=yes, move=target)
        return
    person = database.name_person(by)
    outcomes = database.run(bulk.change_chosen("move", job_ids, person, target))

    def change(job_id: int) -> str:
        outcome = outcomes[job_id]
        if outcome == "gone":
            raise job_not_found(job_id)
        if outcome != "done":
            raise Conflict(f"Job {job_id} was not moved: {REASONS[outcome]}.")
        return "moved"

    change_jobs(job_ids, change, form)


@command.command(
    epilog="""\b
Examples:
  queue jobs delete 9001
  queue jobs delete --status failed --older-than 30d --dry-run""",
)
@change_options
def delete(
    database: Database,
    job_ids: tuple[int, ...],
    by: str | None,
    yes: bool,
    form: str,
    **asked: Any,
) -> None:
    """Delete jobs permanently, including ended ones.

    Deleted jobs cannot be shown or retried. Instead of IDs, you can give filters, which select
    ended jobs unless you give --status.

    This frees no disk space. To free it, use the worker's option --keep-history.
    """
    if is_bulk(job_ids, asked):
        change_matching(database, "delete", asked, form, by=by, yes=yes)
        return
    person = database.name_person(by)

    def change(job_id: int) -> str:
        if database.run(jobs.delete_job(job_id, person)):
            return "deleted"
        if database.run(jobs.get_status(job_id)) is None:
            raise job_not_found(job_id)
        raise Conflict(
            f"Job {job_id} is running. To abort it first: queue jobs cancel --abort {job_id}"
        )

    if not yes:
        _warn_of_children(database, job_ids)
    confirm_jobs("Delete", database, job_ids, yes=yes, command="queue jobs delete --yes")
    change_jobs(job_ids, change, form)


def _warn_of_children(database: Database, job_ids: tuple[int, ...]) -> None:
    """Warn about jobs that would wait forever if these were deleted."""
    for each in database.run(failures.list_failed_parents()):
        if each.parent_id in job_ids:
            remark(
                f"Job {each.job_id} ({visible(each.task)}) waits until job {each.parent_id} has "
                "succeeded, and waits forever if you delete that. To start it anyway: "
                + complete(f"queue jobs retry {each.job_id}")
            )
