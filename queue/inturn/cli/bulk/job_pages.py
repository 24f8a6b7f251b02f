"""The command that shows the jobs that `queue jobs list` leaves out."""

from collections.abc import Sequence
from dataclasses import replace

from inturn.cli.bulk.change import words
from inturn.cli.bulk.jobs import spell_filter
from inturn.cli.database import Database
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import more, remark
from inturn.operations.changes import jobs
from inturn.operations.changes.jobs import SEARCHED, JobFilter, JobSummary

COUNTED = 10_000
FURTHER = 10  # times as many jobs to search


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
            remark(f"The next page: {_spell(replace(which, before_id=found[-1].id), limit)}")
            ended = False  # the next page continues there
    if live or ended:
        further = replace(which, search=FURTHER * which.search)
        remark(
            f"There may be more: only {which.describe_search(live=live, ended=ended)} were "
            f"searched. To search more: {_spell(further, limit)}"
        )


def _spell(which: JobFilter, limit: int) -> str:
    options = [
        *spell_filter(which),
        ("--before-id", which.before_id),
        ("--search", None if which.search == SEARCHED else which.search),
        ("--limit", limit),
    ]
    return complete(" ".join(words("queue jobs list", options)))
