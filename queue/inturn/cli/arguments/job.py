"""Job arguments of commands, and changes to several jobs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import click

from inturn.cli.arguments.completion import complete_job
from inturn.cli.arguments.confirm import confirm
from inturn.cli.database import Database
from inturn.cli.output import exit_status
from inturn.cli.output.exit_status import Conflict, NotFound
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output
from inturn.cli.values import ID
from inturn.errors import InturnError
from inturn.formatting import amount, requote, visible, with_times
from inturn.model import Reason, StoredJob
from inturn.operations.changes import jobs

COLUMNS = {"ID": lambda done: done["id"], "NOW": lambda done: done["now"]}

job_argument = click.argument("job_id", metavar="ID", type=ID, shell_complete=complete_job)
job_arguments = click.argument(
    "job_ids", metavar="[ID]...", type=ID, nargs=-1, shell_complete=complete_job
)


def job_not_found(job_id: int) -> NotFound:
    return NotFound(f"There is no job {job_id}. To see the newest ones: queue jobs list")


def get_job(database: Database, job_id: int) -> StoredJob:
    """Return the job, or raise NotFound."""
    job = database.run(jobs.get_job(job_id))
    if job is None:
        raise job_not_found(job_id)
    return job


def spell_reason(reason: Reason, now: datetime | None) -> Reason:
    """Return the reason with its command as it runs here, and its times as `with_times` does."""
    quoted = requote(reason.unblock)
    detail = with_times(reason.detail, now)
    return replace(reason, detail=detail, unblock=quoted and complete(quoted))


def confirm_jobs(
    verb: str, database: Database, job_ids: Sequence[int], *, yes: bool, command: str
) -> None:
    """Ask for confirmation, naming the number of jobs and their lanes."""
    if yes:
        return
    ids = list(dict.fromkeys(job_ids))
    found = [job for job in (database.run(jobs.get_job(job_id)) for job_id in ids) if job]
    locks = sorted({visible(job.lock) for job in found if job.lock})
    more = ", …" if len(locks) > 3 else ""
    lanes = f" ({amount(len(locks), 'lane')}: {', '.join(locks[:3])}{more})" if locks else ""
    confirm(
        f"{verb} {amount(len(ids), 'job')}{lanes}?",
        yes=yes,
        command=f"{command} {' '.join(map(str, ids))}",
    )


def change_jobs(job_ids: Sequence[int], change: Callable[[int], str], form: str) -> None:
    """Change jobs one by one, even if some fail, and print each id with its new state.

    Exits with the status of the failures if every job failed, or PARTLY if some did. If another
    error, such as a lost connection, prevents the rest, it still prints what was changed.
    """
    done: list[dict[str, str]] = []
    failed: list[InturnError] = []
    try:
        for job_id in dict.fromkeys(job_ids):
            try:
                done.append({"id": str(job_id), "now": change(job_id)})
            except (NotFound, Conflict) as error:
                exit_status.print_error(complete(str(error)))
                failed.append(error)
    finally:
        if done:
            Output(form).records(done, COLUMNS, "")
    if failed:
        raise SystemExit(exit_status.PARTLY if done else min(map(exit_status.get_status, failed)))
