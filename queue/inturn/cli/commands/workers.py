"""`queue workers`: see the workers."""

import click

from inturn.cli.database import Database, with_database
from inturn.cli.formatting import relative
from inturn.cli.next_command import complete
from inturn.cli.output import Output, output_options

ALL = 10_000


@click.group(
    "workers",
    invoke_without_command=True,
    epilog="Example: queue workers list (or just: queue workers)",
)
@click.pass_context
def command(context: click.Context) -> None:
    """See which workers are live, blocked or late."""
    if context.invoked_subcommand is None:
        context.invoke(list_workers)


@command.command("list", epilog="Example: queue workers list --json")
@output_options
@with_database
def list_workers(database: Database, form: str) -> None:
    """List workers, late ones first.

    A late worker has not sent a heartbeat for 30 seconds. The event loop of a blocked worker is
    stuck. CLAIMED jobs are in the hands of a worker that runs others first.
    """
    from inturn.operations import workers

    found = database.run(workers.list_workers(ALL))
    now = database.now()
    columns = {
        "NAME": lambda worker: worker.name,
        "STATE": lambda worker: worker.state,
        "DOING": lambda worker: f"{worker.doing}/{worker.concurrency}",
        "CLAIMED": lambda worker: str(worker.claimed),
        "QUEUES": lambda worker: "all" if worker.queues is None else ",".join(worker.queues),
        "HEARTBEAT": lambda worker: relative(worker.heartbeat_at, now),
        "STARTED": lambda worker: relative(worker.started_at, now),
        "PROCESS": lambda worker: f"{worker.pid} on {worker.hostname}",
    }
    nothing = complete("No worker is running. To start one: queue worker")
    Output(form).records(found, columns, nothing, spare=("STARTED", "PROCESS", "QUEUES"))
