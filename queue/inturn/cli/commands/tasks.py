"""`queue tasks`: list tasks with counts, failures and times, and pause them."""

from datetime import datetime, timedelta

import click

from inturn.cli.arguments.completion import complete_task
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
from inturn.formatting import brief, visible
from inturn.operations.changes import pauses

LISTED = 1000


@click.group(
    "tasks",
    cls=ListGroup,
    epilog="""\b
Examples:
  queue tasks list (or just: queue tasks)
  queue tasks pause shop.tasks.send --for 2h --reason "it sends twice\"""",
)
def command() -> None:
    """List tasks with their counts, failures and times, and pause them."""


@command.command("list", epilog="Example: queue tasks list --json")
@output_options
@with_database
def list_tasks(database: Database, form: str) -> None:
    """List tasks whose jobs ended in the last hour, busiest first.

    P50 and P95: half and 95% of jobs took at most this long. A job waits from its due time until a
    worker claims it: for its lane, its limit and a slot. FAILED counts jobs that failed for good.
    The numbers come from the history and lag by a minute or two.
    """
    from inturn.operations.reading import history

    found = database.run(history.list_tasks(LISTED))
    paused = {pause.task: pause for pause in database.run(pauses.list_paused_tasks())}

    def failed(task: history.TaskStatus) -> str:
        share = f" ({task.failed_share:.1%})" if task.failed and task.failed_share else ""
        return f"{task.failed:,}{share}"

    columns = {
        "TASK": lambda task: task.task,
        "PER MINUTE": lambda task: f"{task.per_minute:,.1f}",
        "SUCCEEDED": lambda task: f"{task.succeeded:,}",
        "FAILED": failed,
        "WAIT P50": lambda task: brief(task.wait_p50),
        "WAIT P95": lambda task: brief(task.wait_p95),
        "RUN P50": lambda task: brief(task.run_p50),
        "RUN P95": lambda task: brief(task.run_p95),
    }
    if paused:
        columns["PAUSED"] = lambda task: name_pauser(paused.get(task.task))
    nothing = "" if found else database.run(history.say_nothing_ended())
    Output(form).records(found, columns, nothing, spare=("SUCCEEDED", "WAIT P95"))
    named = {task.task for task in found}
    for name, pause in paused.items():
        if name not in named:
            remark(f"Paused: {explain_pause(pause, database.now())}")


@command.command(
    epilog='Example: queue tasks pause shop.tasks.send --for 2h --reason "it sends twice"'
)
@click.argument("name", shell_complete=complete_task)
@pause_options
@by_option
@output_options
@with_database
def pause(
    database: Database,
    name: str,
    by: str | None,
    reason: str | None,
    until: datetime | None,
    length: timedelta | None,
    form: str,
) -> None:
    """Stop jobs of a task from starting.

    Jobs that workers have already claimed still run. A lane whose next job is of the task waits;
    other jobs continue. A second pause replaces the first, but keeps its reason unless you give
    another. NAME is the one stored in the jobs, even if no worker knows it.
    """
    check_end(until, length)
    database.run(pauses.pause_task(name, reason, until, by, length))
    paused = database.run(pauses.list_paused_tasks())
    found = (each for each in paused if each.task == name)
    print_pause(database, form, f"task {visible(name)}", found)


@command.command(epilog="Example: queue tasks resume shop.tasks.send")
@click.argument("name", shell_complete=complete_task)
@by_option
@output_options
@with_database
def resume(database: Database, name: str, by: str | None, form: str) -> None:
    """Resume a paused task. Its jobs start in their usual order."""
    if not database.run(pauses.resume_task(name, by)):
        raise Conflict(f"Task {visible(name)} is not paused. To see pauses: queue tasks list")
    left = database.run(pauses.list_paused_tasks())
    Output(form).record({"paused": left}, f"resumed task {visible(name)}")
