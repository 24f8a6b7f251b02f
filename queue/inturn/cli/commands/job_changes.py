"""What a person does to jobs, one or several: each by itself, and what fails does not keep the others back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click

from inturn.cli import exit_status
from inturn.cli.confirm import ask, yes_option
from inturn.cli.database import Database, with_database
from inturn.cli.exit_status import Conflict, NotFound
from inturn.cli.formatting import amount, visible
from inturn.cli.output import Output, output_options
from inturn.errors import InturnError

F = TypeVar("F", bound=Callable[..., Any])
ID = click.IntRange(1, 2**63 - 1)
COLUMNS = {"ID": lambda done: done["id"], "NOW": lambda done: done["now"]}


def job_argument(command: F) -> F:
    return click.argument("job_id", metavar="ID", type=ID)(command)


def job_arguments(command: F) -> F:
    return click.argument("job_ids", metavar="ID...", type=ID, nargs=-1, required=True)(command)


@click.command(epilog="Example: queue jobs retry 9001 9002")
@job_arguments
@output_options
@with_database
def retry(database: Database, job_ids: tuple[int, ...], form: str) -> None:
    """Run finished jobs again, or scheduled ones now.

    A job keeps its id, and so its place among those of its lock.
    """
    from inturn.operations import jobs

    def act(job_id: int) -> str:
        if database.run(jobs.retry_job(job_id)):
            return "todo"
        status = database.run(jobs.get_status(job_id))
        if status is None:
            raise nothing(job_id)
        raise Conflict(
            f"Job {job_id} is {status} and needs no retry. What it waits for: queue jobs explain {job_id}"
        )

    _each(job_ids, act, form)


@click.command(
    epilog="""\b
Examples:
  queue jobs cancel 9001 9002
  queue jobs cancel --abort --yes 9001""",
)
@job_arguments
@click.option("--abort", is_flag=True, help="End also what is being done: its worker is asked to.")
@yes_option
@output_options
@with_database
def cancel(database: Database, job_ids: tuple[int, ...], abort: bool, yes: bool, form: str) -> None:
    """Cancel jobs that have not begun."""
    from inturn.operations import jobs

    def act(job_id: int) -> str:
        status = database.run(jobs.cancel_job(job_id, abort))
        if status is None:
            raise nothing(job_id)
        if status == "doing" and not abort:
            raise Conflict(
                f"Job {job_id} is being done. Ask its worker to end it: queue jobs cancel --abort {job_id}"
            )
        if status not in ("cancelled", "doing"):
            raise Conflict(f"Job {job_id} has {status} already.")
        return "asked to end" if status == "doing" else "cancelled"

    _ask(
        "Cancel",
        database,
        job_ids,
        yes=yes,
        command="queue jobs cancel --yes" + (" --abort" if abort else ""),
    )
    _each(job_ids, act, form)


@click.command(epilog="Example: queue jobs delete 9001")
@job_arguments
@yes_option
@output_options
@with_database
def delete(database: Database, job_ids: tuple[int, ...], yes: bool, form: str) -> None:
    """Delete jobs for good, finished ones too.

    Nothing is left to look at or to retry.
    """
    from inturn.operations import jobs

    def act(job_id: int) -> str:
        if database.run(jobs.delete_job(job_id)):
            return "deleted"
        if database.run(jobs.get_status(job_id)) is None:
            raise nothing(job_id)
        raise Conflict(
            f"Job {job_id} is being done. End it first: queue jobs cancel --abort {job_id}"
        )

    _ask("Delete", database, job_ids, yes=yes, command="queue jobs delete --yes")
    _each(job_ids, act, form)


def nothing(job_id: int) -> NotFound:
    return NotFound(f"There is no job {job_id}. The newest ones: queue jobs list")


def error_lines(number: int, error: dict[str, Any]) -> Iterator[str]:
    """One of those that a job keeps."""
    attempt = f"attempt {error['attempt']}" if "attempt" in error else f"{number}."
    first, *others = str(error.get("error", "")).splitlines() or [""]
    yield f"{attempt}: {first}"
    yield from (f"    {line}" for line in others)


def _ask(verb: str, database: Database, job_ids: Sequence[int], *, yes: bool, command: str) -> None:
    """Names how many jobs, and of which lanes."""
    from inturn.operations import jobs

    if yes:
        return
    ids = list(dict.fromkeys(job_ids))
    found = [job for job in (database.run(jobs.get_job(job_id)) for job_id in ids) if job]
    locks = sorted({visible(job.lock) for job in found if job.lock})
    lanes = (
        f" ({amount(len(locks), 'lane')}: {', '.join(locks[:3])}{', …' if len(locks) > 3 else ''})"
        if locks
        else ""
    )
    ask(
        f"{verb} {amount(len(ids), 'job')}{lanes}?",
        yes=yes,
        command=f"{command} {' '.join(map(str, ids))}",
    )


def _each(job_ids: Sequence[int], act: Callable[[int], str], form: str) -> None:
    """The status of the process is that of what failed, if all did, else PARTLY."""
    done: list[dict[str, str]] = []
    failed: list[InturnError] = []
    for job_id in dict.fromkeys(job_ids):
        try:
            done.append({"id": str(job_id), "now": act(job_id)})
        except (NotFound, Conflict) as error:
            exit_status.say(str(error))
            failed.append(error)
    if done:
        Output(form).records(done, COLUMNS, "")
    if failed:
        raise SystemExit(exit_status.PARTLY if done else min(map(exit_status.status_of, failed)))
