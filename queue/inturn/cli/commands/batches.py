"""`queue batches`: list, show, close and cancel batches."""

import click

from inturn.cli.arguments.confirm import confirm, yes_option
from inturn.cli.arguments.lane import by_option
from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import Conflict, NotFound
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, details, output_options, remark
from inturn.cli.values import ID
from inturn.formatting import amount, on_clock, relative, visible
from inturn.model import BatchProgress

LISTED = 1000
batch_argument = click.argument("batch", metavar="ID", type=ID)


@click.group(
    "batches",
    epilog="""\b
Examples:
  queue batches list
  queue batches show 7
  queue batches close 7""",
)
def command() -> None:
    """List, show, close and cancel batches."""


@command.command("list", epilog="Example: queue batches list --json")
@output_options
@with_database
def list_batches(database: Database, form: str) -> None:
    """List batches, newest first."""
    from inturn.operations.engine import batches

    found = database.run(batches.list_batches(LISTED))
    now = database.now()
    columns = {
        "ID": lambda batch: str(batch.id),
        "STATE": lambda batch: batch.state,
        "NAME": lambda batch: visible(batch.name),
        "TOTAL": lambda batch: str(batch.total),
        "REMAINING": lambda batch: str(batch.remaining),
        "FAILED": lambda batch: str(batch.failed),
        "OPENED": lambda batch: relative(batch.opened_at, now),
        "CALLBACK": lambda batch: str(batch.callback_id or ""),
    }
    Output(form).records(found, columns, "No batches.", spare=("OPENED",))


@command.command("show", epilog="Example: queue batches show 7")
@batch_argument
@output_options
@with_database
def show(database: Database, batch: int, form: str) -> None:
    """Show how many jobs of a batch have ended, and how."""
    found = find_batch(database, batch)
    now = database.now()
    values = {
        "batch": f"{found.id} {visible(found.name)}",
        "state": found.state,
        "total": str(found.total),
        "remaining": str(found.remaining),
        "succeeded": str(found.succeeded),
        "failed": str(found.failed),
        "cancelled": str(found.cancelled),
        "aborted": str(found.aborted),
        "opened": on_clock(found.opened_at, now),
        "closed": on_clock(found.closed_at, now) if found.closed_at else None,
        "ended": on_clock(found.ended_at, now) if found.ended_at else None,
        "callback": f"job {found.callback_id}" if found.callback_id else None,
    }
    Output(form).record(found, "\n".join(details(values)))
    if found.state == "open":
        remark(
            f"It is open. Once all its jobs are in it: {complete(f'queue batches close {batch}')}"
        )


@command.command("close", epilog="Example: queue batches close 7")
@batch_argument
@by_option
@with_database
def close(database: Database, batch: int, by: str | None) -> None:
    """Close a batch: it ends, and its callback runs, once all its jobs have ended."""
    from inturn.operations.engine import batches

    found = find_batch(database, batch)
    if found.state != "open":
        raise Conflict(f"Batch {batch} is already {found.state}.")
    database.run(batches.close_batch(batch, database.name_person(by)))
    remark(f"Batch {batch} is closed.")


@command.command("cancel", epilog="Example: queue batches cancel --yes 7")
@batch_argument
@click.option("--abort", is_flag=True, help="Also ask workers to abort jobs that are running.")
@by_option
@yes_option
@with_database
def cancel(database: Database, batch: int, abort: bool, by: str | None, yes: bool) -> None:
    """Cancel a batch's waiting jobs and its callback, and close it."""
    from inturn.operations.engine import batches

    found = find_batch(database, batch)
    if found.state == "ended":
        raise Conflict(f"Batch {batch} has already ended.")
    confirm(
        f"Cancel batch {batch} ({visible(found.name)}) with {amount(found.remaining, 'job')} and "
        "its callback?",
        yes=yes,
        command=f"queue batches cancel --yes{' --abort' if abort else ''} {batch}",
    )
    person = database.name_person(by)
    cancelled, asked = database.run(batches.cancel_batch(batch, abort, person))
    remark(
        f"{amount(cancelled, 'job')} cancelled"
        + (f", {amount(asked, 'running job')} asked to abort." if abort else ".")
    )


def find_batch(database: Database, batch: int) -> BatchProgress:
    from inturn.operations.engine import batches

    found = database.run(batches.show_batch(batch))
    if found is None:
        raise NotFound(f"Batch {batch} does not exist. To see the newest ones: queue batches list")
    return found
