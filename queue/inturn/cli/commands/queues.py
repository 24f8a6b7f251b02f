"""`queue queues`: see where jobs wait, and which workers serve them."""

import click

from inturn.cli.database import Database, with_database
from inturn.cli.formatting import relative
from inturn.cli.output import Output, output_options


@click.group(
    "queues",
    invoke_without_command=True,
    epilog="Example: queue queues list (or just: queue queues)",
)
@click.pass_context
def command(context: click.Context) -> None:
    """See where jobs wait, and how many workers serve each queue."""
    if context.invoked_subcommand is None:
        context.invoke(list_queues)


@command.command("list", epilog="Example: queue queues list --json")
@output_options
@with_database
def list_queues(database: Database, form: str) -> None:
    """List queues, and count their jobs by what they wait for.

    Only RUNNABLE jobs would start sooner if you had more workers. If a job is CLAIMED, a worker has
    claimed it, but runs other jobs first. A + means "or more".
    """
    from inturn.operations import workers

    found = database.run(workers.list_queues())
    now = database.now()

    def count(number: int, queue: workers.QueueStatus) -> str:
        return f"{number:,}{'+' if queue.more else ''}"

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
    Output(form).records(found, columns, "No queue has a live job or a worker of its own.")
