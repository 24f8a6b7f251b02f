"""The filter options of job lists and bulk changes, the bulk change, and what a list leaves out."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import click

from inturn.cli.arguments.completion import complete_lock, complete_queue, complete_task
from inturn.cli.arguments.confirm import yes_option
from inturn.cli.arguments.job import job_arguments
from inturn.cli.arguments.lane import by_option
from inturn.cli.bulk.change import PlannedBulk, bulk_options, is_bulk_of, run_bulk, words
from inturn.cli.database import Database, with_database
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import more, output_options, remark
from inturn.cli.settings import combine
from inturn.cli.values import ID, duration_option, moment_option
from inturn.formatting import amount, iso, last_line, visible
from inturn.operations.changes import bulk, jobs
from inturn.operations.changes.bulk import NO_MOVE, JobAction, JobPreview, Move
from inturn.operations.changes.bulk_effect import VERBS, describe_jobs
from inturn.operations.changes.jobs import SEARCHED, JobFilter, JobSummary
from inturn.states import STATUSES

SAMPLE = 5  # jobs
COUNTED = 10_000
FURTHER = 10  # times as many jobs to search


# They select jobs for a list, a count or a bulk change.
filter_options = combine(
    click.option(
        "--status",
        "statuses",
        multiple=True,
        type=click.Choice(STATUSES),
        metavar="STATUS",  # all of them in one word would be wider than a terminal
        help=f"Only jobs with this status: {', '.join(STATUSES)}. Can be repeated.",
    ),
    click.option("--batch", type=ID, help="Only jobs of this batch."),
    click.option("--group", metavar="GROUP", help="Only jobs of this group."),
    click.option(
        "--queue", metavar="NAME", shell_complete=complete_queue, help="Only jobs in this queue."
    ),
    click.option(
        "--task", metavar="TASK", shell_complete=complete_task, help="Only jobs of this task."
    ),
    click.option(
        "--lock", metavar="LOCK", shell_complete=complete_lock, help="Only jobs with this lock."
    ),
    click.option(
        "--lock-prefix", metavar="PREFIX", help="Only jobs whose lock starts with PREFIX."
    ),
    click.option("--error", metavar="WORDS", help="Only jobs whose last error contains this text."),
    duration_option(
        "--older-than",
        help="Only jobs that ended longer ago or, if live, were deferred longer ago.",
    ),
    moment_option("--before", help="Like --older-than, but an absolute time."),
)
# A command that changes jobs gets the Database first.
change_options = combine(
    job_arguments,
    filter_options,
    bulk_options,
    by_option,
    yes_option,
    output_options,
    with_database,
)


def make_filter(
    database: Database,
    *,
    older_than: timedelta | None,
    before: datetime | None,
    **asked: Any,
) -> JobFilter:
    if older_than is not None and before is not None:
        raise click.UsageError("You cannot give both --older-than and --before.")
    if older_than is not None:
        before = database.now() - older_than
    return JobFilter(**asked, before=before)


def is_bulk(job_ids: tuple[int, ...], asked: dict[str, Any]) -> bool:
    """Return True if the options select the jobs, False if IDs do."""
    return is_bulk_of("IDs", "--status, --task …", asked, named=bool(job_ids))


def change_matching(
    database: Database,
    action: JobAction,
    asked: dict[str, Any],
    form: str,
    *,
    by: str | None,
    yes: bool,
    abort: bool = False,
    move: Move = NO_MOVE,
) -> None:
    dry_run, everything = asked.pop("dry_run"), asked.pop("everything")
    which = bulk.for_action(action, make_filter(database, **asked), abort=abort)
    seen = database.run(bulk.preview_jobs(action, which, move))
    which = replace(which, before=which.before or seen.until)
    options = [
        *spell_filter(replace(which, statuses=asked["statuses"])),
        ("--abort", abort),
        ("--priority", move.priority),
        ("--to-queue", move.queue),
        ("--all", everything),
        ("--yes", True),
    ]
    plan = PlannedBulk(
        action,
        "job",
        seen,
        f"{VERBS[action]} {_count(seen)}?",
        describe_jobs(action, seen, move),
        _sample(database, seen),
        words(f"queue jobs {action}", options),
    )
    person = database.name_person(by)
    run_bulk(
        plan,
        lambda done, watch: database.run(
            bulk.change_jobs(action, which, done, abort=abort, move=move, by=person, watch=watch)
        ),
        form,
        dry_run=dry_run,
        yes=yes,
    )


def spell_filter(which: JobFilter) -> list[tuple[str, Any]]:
    return [
        *(("--status", status) for status in which.statuses),
        ("--queue", which.queue),
        ("--task", which.task),
        ("--lock", which.lock),
        ("--lock-prefix", which.lock_prefix),
        ("--group", which.group),
        ("--batch", which.batch),
        ("--error", which.error),
        ("--before", None if which.before is None else iso(which.before)),
    ]


def say_what_is_left_out(
    database: Database, which: JobFilter, found: Sequence[JobSummary], limit: int
) -> None:
    """Print how many more jobs there are, or that not all were searched."""
    live, ended = database.run(jobs.is_search_cut(which, limit + 1))
    if len(found) == limit:
        count, or_more = limit + 1, True
        if which.before_id is None:
            count, or_more = database.run(jobs.count_jobs(which, COUNTED))
            more(count - limit, or_more=or_more)
        if count > limit:
            remark(f"The next page: {_spell_list(replace(which, before_id=found[-1].id), limit)}")
            ended = False  # the next page continues there
    if live or ended:
        further = replace(which, search=FURTHER * which.search)
        remark(
            f"There may be more: only {which.describe_search(live=live, ended=ended)} were "
            f"searched. To search more: {_spell_list(further, limit)}"
        )


def _spell_list(which: JobFilter, limit: int) -> str:
    options = [
        *spell_filter(which),
        ("--before-id", which.before_id),
        ("--search", None if which.search == SEARCHED else which.search),
        ("--limit", limit),
    ]
    return complete(" ".join(words("queue jobs list", options)))


def _count(seen: JobPreview) -> str:
    lanes = f" in {amount(seen.lanes, 'lane', or_more=seen.more)}" if seen.lanes else ""
    return f"{amount(seen.count, 'job', or_more=seen.more)}{lanes}"


def _sample(database: Database, seen: JobPreview) -> list[str]:
    """Return a line for each of the first jobs."""
    lines = []
    for job_id in seen.sample[:SAMPLE]:
        job = database.run(jobs.get_job(job_id))
        if job is not None:
            error = last_line(str(job.errors[-1].get("error", ""))) if job.errors else ""
            lock = f" of {visible(job.lock)}" if job.lock else ""
            why = f": {error}" if error and job.status != "succeeded" else ""
            lines.append(f"  {job.id} {visible(job.task_name)}{lock}, {job.status}{why}")
    rest = seen.count - len(lines)
    return [*lines, *([f"  … {amount(rest, 'more job')}"] if lines and rest > 0 else [])]
