"""`queue workers`: list workers."""

from datetime import timedelta

import click

from inturn.cli.database import Database, with_database
from inturn.cli.output.exit_status import NotFound
from inturn.cli.output.list_group import ListGroup
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, output_options
from inturn.cli.values import duration_option
from inturn.formatting import relative, span, visible
from inturn.operations.engine import workers

ALL = 10_000


@click.group(
    "workers",
    cls=ListGroup,
    epilog="Example: queue workers list (or just: queue workers)",
)
def command() -> None:
    """List live, stopping, blocked and late workers."""


@command.command(
    "list",
    epilog="""\b
Examples:
  queue workers list --json
  queue workers list --name web-1 --max-age 90s    is this worker alive?""",
)
@click.option("--name", metavar="NAME", help="Only workers with this name.")
@duration_option(
    "--max-age",
    help="Only workers whose last heartbeat and last turn of the event loop are at most this old, "
    "e.g. 90s.",
)
@output_options
@with_database
def list_workers(
    database: Database, name: str | None, max_age: timedelta | None, form: str
) -> None:
    """List workers, late ones first.

    A late worker has sent no heartbeat for 30 seconds. A blocked worker has a stuck event loop. A
    stopping worker ends its jobs and takes no more. A CLAIMED job belongs to a worker that runs
    other jobs first. If you give --name or --max-age and no worker matches, the exit status is 3.
    """
    found = database.run(workers.list_workers(ALL))
    now = database.now()
    if name is not None or max_age is not None:
        found = [
            worker
            for worker in found
            if name in (None, worker.name)
            # A heartbeat reports the loop's last turn, so this time is never the later one.
            and (max_age is None or now - worker.loop_turned_at <= max_age)
        ]
        if not found:
            which = "" if name is None else f" named {visible(name)}"
            alive = "" if max_age is None else f" that was alive in the last {span(max_age)}"
            raise NotFound(
                f"No worker{which}{alive} was found. To see all workers: queue workers list"
            )
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
