"""`queue queues`: list queues with their jobs and workers, and pause them."""

from datetime import datetime, timedelta

import click

from inturn.cli.arguments.completion import complete_queue
from inturn.cli.arguments.lane import by_option
from inturn.cli.arguments.pause import (
    check_end,
    explain_pause,
    name_pauser,
    pause_options,
    print_pause,
)
from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import Conflict
from inturn.cli.output.list_group import ListGroup
from inturn.cli.output.printing import Output, output_options, remark
from inturn.formatting import at_least, relative, visible
from inturn.operations.changes import pauses
from inturn.operations.engine import workers


@click.group(
    "queues",
    cls=ListGroup,
    epilog="""\b
Examples:
  queue queues list (or just: queue queues)
  queue queues pause mail --for 2h --reason "supplier is down\"""",
)
def command() -> None:
    """List queues with their jobs and workers, and pause them."""


@command.command("list", epilog="Example: queue queues list --json")
@output_options
@with_database
def list_queues(database: Database, form: str) -> None:
    """List queues, and count their jobs by what they wait for.

    More workers would only help RUNNABLE jobs. A CLAIMED job belongs to a worker that runs other
    jobs first. A + means "or more".
    """
    found = database.run(workers.list_queues())
    paused = {pause.queue: pause for pause in database.run(pauses.list_paused_queues())}
    now = database.now()

    def count(number: int, queue: workers.QueueStatus) -> str:
        return at_least(number, queue.more)

    columns = {
        "QUEUE": lambda queue: queue.queue,
        "RUNNABLE": lambda queue: count(queue.runnable, queue),
        "OLDEST": lambda queue: relative(queue.runnable_since, now),
        "BLOCKED": lambda queue: count(queue.blocked, queue),
        "LIMITED": lambda queue: count(queue.limited, queue),
        "SCHEDULED": lambda queue: count(queue.scheduled, queue),
        "PENDING": lambda queue: count(queue.pending, queue),
        "CLAIMED": lambda queue: count(queue.claimed, queue),
        "DOING": lambda queue: count(queue.doing, queue),
        "WORKERS": lambda queue: str(queue.workers),
    }
    if paused:
        columns["PAUSED"] = lambda queue: name_pauser(paused.get(queue.queue) or paused.get(None))
    Output(form).records(found, columns, "No queue has a live job or is named by a worker.")
    named = {queue.queue for queue in found} | ({None} if found else set())
    for name, pause in paused.items():
        if name not in named:
            remark(f"Paused: {explain_pause(pause, now)}")


@command.command(
    epilog="""\b
Examples:
  queue queues pause mail --for 2h --reason "supplier is down"
  queue queues pause --all --reason "we move the database\"""",
)
@click.argument("name", required=False, shell_complete=complete_queue)
@click.option("--all", "everything", is_flag=True, help="Pause all queues, including new ones.")
@pause_options
@by_option
@output_options
@with_database
def pause(
    database: Database,
    name: str | None,
    everything: bool,
    by: str | None,
    reason: str | None,
    until: datetime | None,
    length: timedelta | None,
    form: str,
) -> None:
    """Stop jobs of a queue from starting.

    Jobs that workers have already claimed still run. A lane whose next job is in the queue waits. A
    second pause replaces the first, but keeps its reason unless you give another.
    """
    _check_name(name, everything)
    check_end(until, length)
    database.run(pauses.pause_queue(name, reason, until, by, length))
    paused = database.run(pauses.list_paused_queues())
    print_pause(database, form, _name(name), (each for each in paused if each.queue == name))
    known = {None, *(each.queue for each in database.run(workers.list_queues()))}
    if name not in known:
        remark(
            "This queue has no jobs, and no worker names it. Check the name if you expected one."
        )


@command.command(epilog="Example: queue queues resume mail")
@click.argument("name", required=False, shell_complete=complete_queue)
@click.option("--all", "everything", is_flag=True, help="End the pause of all queues.")
@by_option
@output_options
@with_database
def resume(
    database: Database, name: str | None, everything: bool, by: str | None, form: str
) -> None:
    """Resume a paused queue.

    --all ends the pause of all queues. Pauses of single queues stay.
    """
    _check_name(name, everything)
    if not database.run(pauses.resume_queue(name, by)):
        raise Conflict(f"There is no pause of {_name(name)}. To see pauses: queue queues list")
    left = database.run(pauses.list_paused_queues())
    Output(form).record({"paused": left}, f"resumed {_name(name)}")


def _check_name(name: str | None, everything: bool) -> None:
    if everything == (name is not None):
        raise click.UsageError("Give either the NAME of a queue or --all.")


def _name(name: str | None) -> str:
    return "all queues" if name is None else f"queue {visible(name)}"
