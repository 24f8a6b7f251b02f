"""`queue defer`: defer one job from a shell."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from inturn.cli.arguments.completion import complete_lock, complete_task
from inturn.cli.settings import Settings, database_options, find_app
from inturn.cli.suggestions import did_you_mean
from inturn.cli.values import ID, PRIORITY, duration_option, moment_option, task_arguments
from inturn.errors import TaskNotFound

if TYPE_CHECKING:
    from inturn.app import App
    from inturn.tasks.options import NewJob


@click.command(
    "defer",
    epilog="""\b
Examples:
  queue defer shop.tasks.send to=ann@example.org copies=2 --lock ann
  queue defer shop.tasks.send '{"to": "ann@example.org"}' --in 10m""",
)
@click.argument("task", shell_complete=complete_task)
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE ...]")
@click.option(
    "--lock",
    "locks",
    multiple=True,
    metavar="LOCK",
    shell_complete=complete_lock,
    help="Jobs with the same lock run one at a time, in order. Can be repeated.",
)
@click.option(
    "--shared",
    multiple=True,
    metavar="LOCK",
    shell_complete=complete_lock,
    help="A lock to share: jobs that share it may run side by side. Can be repeated.",
)
@click.option("--queueing-lock", metavar="KEY", help="Let at most one job wait under this key.")
@click.option(
    "--on-conflict",
    type=click.Choice(["raise", "skip", "replace"]),
    help="If a job already waits under that key: fail, print its id, or let it do this work.  "
    "[default: the task's, or raise]",
)
@click.option(
    "-i",
    "--ignore-already-enqueued/--no-ignore-already-enqueued",
    default=False,
    help="Same as --on-conflict skip.",
)
@duration_option("--timeout", help="How long an attempt may take, e.g. 90s.")
@click.option("--limit", metavar="KEY", help="Count the job under the limit of this key.")
@click.option("--group", metavar="NAME", help="Let the job's group take turns with others.")
@click.option("--queue", metavar="NAME", help="The queue.  [default: the task's]")
@click.option(
    "--priority", type=PRIORITY, help="Higher priorities run first.  [default: the task's]"
)
@moment_option(
    "--at", "schedule_at", help="Do not start before this time, e.g. 2030-01-31T12:00:00Z."
)
@duration_option("--in", "schedule_in", help="Do not start before this long from now, e.g. 10m.")
@moment_option("--expires-at", help="Cancel it if it has not started by this time.")
@duration_option("--expires-in", help="Cancel it if it has not started within this time, e.g. 1h.")
@click.option(
    "--after", type=ID, multiple=True, help="Start it after this job ends. Can be repeated."
)
@click.option("--batch", type=ID, help="Add it to this batch.")
@click.option(
    "--on-parent",
    type=click.Choice(["cancel", "go", "hold"]),
    help="If an --after job does not succeed: cancel this one, start it anyway, or hold it until "
    "that job is retried.  [default: the task's, or cancel]",
)
@click.option(
    "--unknown/--no-unknown",
    default=False,
    help="Defer the task even if the app does not have it.  [default: no-unknown]",
)
@database_options
def command(
    settings: Settings,
    /,
    task: str,
    arguments: tuple[str, ...],
    schedule_at: datetime | None,
    schedule_in: timedelta | None,
    unknown: bool,
    ignore_already_enqueued: bool,
    **options: Any,
) -> None:
    """Defer one job of TASK and print its id.

    A VALUE that is valid JSON (2, true, [1], "text") is read as JSON, any other as text. If you
    name an app, it must have the task (unless you give --unknown), and the task must accept the
    arguments. Without an app, nothing is checked.
    """
    if schedule_at is not None and schedule_in is not None:
        raise click.UsageError("You cannot give both --at and --in.")
    if options["expires_at"] is not None and options["expires_in"] is not None:
        raise click.UsageError("You cannot give both --expires-at and --expires-in.")
    if ignore_already_enqueued:
        if options["on_conflict"] not in (None, "skip"):
            raise click.UsageError("You cannot give both -i and another --on-conflict.")
        options["on_conflict"] = "skip"
    given = task_arguments(arguments)
    from inturn.tasks.lanes import Shared

    path, app = settings.app_path(), find_app(settings)
    if path is not None and not unknown and task not in app.tasks:
        raise TaskNotFound(
            f"The app {path} has no task {task!r}.{did_you_mean(task, app.tasks)} Import the "
            "module that declares it, or give --unknown if it belongs to another program."
        )
    locks = [*options.pop("locks"), *map(Shared, options.pop("shared"))]
    deferrer = app.configure_task(
        task,
        allow_unknown=unknown or path is None,
        task_kwargs=given,
        schedule_at=schedule_at,
        schedule_in=schedule_in,
        lock=locks or None,
        **options,
    )
    click.echo(_defer(app, deferrer.make_new_job()))


def _defer(app: App, job: NewJob) -> int:
    homes = app.connector.homes
    if len(homes) > 1:
        with app.open():
            return app.job_manager.defer_job(job)
    # If the database is down, the app's pool would try for half a minute.
    with closing(homes[0].connect()) as connection:
        return app.job_manager.defer_job(job, connection)
