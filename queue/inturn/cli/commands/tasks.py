"""`queue tasks`: see how often tasks run, how they end, and how fast they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inturn.cli.database import Database, with_database
from inturn.cli.output import Output, output_options
from inturn.formatting import brief

if TYPE_CHECKING:
    from inturn.operations.history import TaskStatus

LISTED = 1000


@click.group(
    "tasks",
    invoke_without_command=True,
    epilog="Example: queue tasks list (or just: queue tasks)",
)
@click.pass_context
def command(context: click.Context) -> None:
    """See how often tasks run, how they end, and how fast they are."""
    if context.invoked_subcommand is None:
        context.invoke(list_tasks)


@command.command("list", epilog="Example: queue tasks list --json")
@output_options
@with_database
def list_tasks(database: Database, form: str) -> None:
    """List the tasks whose jobs ended in the last hour, the busiest first.

    WAIT and RUN say how long half of the jobs and 95 of 100 jobs took at most. A job waits from the
    time that it was due until a worker claims it: for its lane, its limit and a slot. FAILED counts
    jobs that failed for good. The numbers come from the history, a minute or two late.
    """
    from inturn.operations import history

    found = database.run(history.list_tasks(LISTED))
    columns = {
        "TASK": lambda task: task.task,
        "PER MINUTE": lambda task: f"{task.per_minute:,.1f}",
        "SUCCEEDED": lambda task: f"{task.succeeded:,}",
        "FAILED": _failed,
        "WAIT": lambda task: brief(task.wait_p50),
        "WAIT 95%": lambda task: brief(task.wait_p95),
        "RUN": lambda task: brief(task.run_p50),
        "RUN 95%": lambda task: brief(task.run_p95),
    }
    nothing = "No job has ended in the last hour, or the history is not kept."
    Output(form).records(found, columns, nothing, spare=("SUCCEEDED", "WAIT 95%"))


def _failed(task: TaskStatus) -> str:
    share = f" ({task.failed_share:.1%})" if task.failed and task.failed_share else ""
    return f"{task.failed:,}{share}"
