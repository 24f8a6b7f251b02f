"""`queue defer`: defer one job from a shell."""

from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import click

from inturn.cli.settings import Settings, database_options, find_connector, load_app
from inturn.cli.values import duration, moment, task_arguments


@click.command(
    "defer",
    epilog="""\b
Examples:
  queue defer shop.tasks.send to=ann@example.org copies=2 --lock ann
  queue defer shop.tasks.send '{"to": "ann@example.org"}' --in 10m""",
)
@click.argument("task")
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE ...]")
@click.option("--lock", help="Jobs with the same lock run one at a time and in order.")
@click.option("--queueing-lock", metavar="KEY", help="At most one job waits under this key.")
@click.option(
    "--on-conflict",
    type=click.Choice(["raise", "skip", "replace"]),
    help="If a job waits under it already: fail, print its id, or replace its task and arguments.  "
    "[default: the task's, or raise]",
)
@click.option(
    "--timeout", callback=duration, metavar="TIME", help="How long a run may take, e.g. 90s."
)
@click.option("--queue", help="The queue.  [default: the task's]")
@click.option(
    "--priority",
    type=int,
    metavar="N",
    help="A higher priority runs earlier.  [default: the task's]",
)
@click.option(
    "--at",
    "schedule_at",
    callback=moment,
    metavar="TIME",
    help="Do not start before this time, e.g. 2030-01-31T12:00:00Z.",
)
@click.option(
    "--in",
    "schedule_in",
    callback=duration,
    metavar="TIME",
    help="Do not start before this long from now, e.g. 10m.",
)
@click.option("--unknown", is_flag=True, help="Defer a task that the app does not know.")
@database_options
def command(
    settings: Settings,
    /,
    task: str,
    arguments: tuple[str, ...],
    dsn: str | None,
    schema: str | None,
    schedule_at: datetime | None,
    schedule_in: timedelta | None,
    unknown: bool,
    **options: Any,
) -> None:
    """Defer one job of TASK and print its id.

    A VALUE that is JSON (2, true, [1], "text") is read as JSON, and any other as text. If you name
    an app, it must have the task (unless you give --unknown), and the task must accept the
    arguments. Without an app nothing is checked.
    """
    if schedule_at is not None and schedule_in is not None:
        raise click.UsageError("You cannot give both --at and --in.")
    given = task_arguments(arguments)
    from inturn.app import App

    path = settings.app_path()
    app = (
        App(connector=find_connector(settings, dsn, schema))
        if path is None
        else load_app(path, dsn, schema)
    )
    # If the database is down, the app's pool would try for half a minute.
    with closing(app.connector.connect()) as connection:
        deferrer = app.configure_task(
            task,
            allow_unknown=unknown or path is None,
            task_kwargs=given,
            schedule_at=schedule_at,
            schedule_in=schedule_in,
            connection=connection,
            **options,
        )
        click.echo(deferrer.defer())
