"""Defer one job from a shell."""

from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import click

from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    find_connector,
    load_app,
    pass_settings,
    schema_option,
    verbose_option,
)
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
@click.option("--lock", help="Jobs with the same lock run in turn.")
@click.option("--queueing-lock", metavar="KEY", help="At most one job waits under it.")
@click.option(
    "--on-conflict",
    type=click.Choice(["raise", "skip", "replace"]),
    help="What to do if one does: fail, print its id, or hand it this work too.  [default: the task's, or raise]",
)
@click.option(
    "--timeout", callback=duration, metavar="TIME", help="How long a run may take, e.g. 90s."
)
@click.option("--queue", help="Which queue.  [default: the task's]")
@click.option(
    "--priority", type=int, metavar="N", help="Higher runs earlier.  [default: the task's]"
)
@click.option(
    "--at",
    "schedule_at",
    callback=moment,
    metavar="TIME",
    help="Not before, e.g. 2030-01-31T12:00:00Z.",
)
@click.option(
    "--in",
    "schedule_in",
    callback=duration,
    metavar="TIME",
    help="Not before so long from now, e.g. 10m.",
)
@click.option("--unknown", is_flag=True, help="Defer it although the app does not know the task.")
@app_option
@dsn_option
@schema_option
@verbose_option
@pass_settings
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

    A VALUE is read as JSON where it is JSON (2, true, [1], "text"), and else as text. With an app the task must exist there
    (unless --unknown) and accept the arguments; without one both are taken as they are.
    """
    if schedule_at is not None and schedule_in is not None:
        raise click.UsageError("--at and --in exclude each other. Give one of them.")
    given = task_arguments(arguments)
    from inturn.app import App

    path = settings.app_path()
    app = (
        App(connector=find_connector(settings, dsn, schema))
        if path is None
        else load_app(path, dsn, schema)
    )
    # A connection instead of the app's pool, which would try for half a minute when the database is away.
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
