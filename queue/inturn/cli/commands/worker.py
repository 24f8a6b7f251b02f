"""Run a worker until it is told to stop."""

import signal
from collections.abc import Callable
from typing import Any, TypeVar

import click

from inturn.cli import logs
from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    load_app,
    pass_settings,
    verbose_option,
)
from inturn.cli.values import duration
from inturn.errors import MissingApp, SchemaMismatch

F = TypeVar("F", bound=Callable[..., Any])
MIGRATE = "queue migrate"  # what SchemaMismatch advises


def seconds(*names: str, help: str) -> Callable[[F], F]:
    return click.option(*names, type=float, metavar="SECONDS", help=help)


@click.command(
    "worker",
    epilog="""\b
Examples:
  queue -a shop.tasks:app worker
  queue -a shop.tasks:app worker -q mail,reports -c 10 --grace 30""",
)
@app_option
@dsn_option
@click.option(
    "-q", "--queues", metavar="A,B", multiple=True, help="Serve only these queues.  [default: all]"
)
@click.option(
    "-c", "--concurrency", type=int, metavar="N", help="How many jobs at once.  [default: 1]"
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    help="How many such workers.  [default: 1]",
)
@click.option("-n", "--name", help="What to call this worker in logs and tables.")
@click.option(
    "--one-shot/--wait",
    "-1/-w",
    "--no-wait",
    default=None,
    help="End when nothing is left to do, or wait.",
)
@seconds(
    "--grace",
    "--shutdown-graceful-timeout",
    help="Abort what still runs so long after the first signal.",
)
@seconds(
    "-p",
    "--poll",
    "--fetch-job-polling-interval",
    help="Look for jobs at least this often.  [default: 5]",
)
@seconds(
    "--abort-job-polling-interval", help="Look for jobs to abort at least this often.  [default: 5]"
)
@click.option(
    "--listen-notify/--no-listen-notify",
    "-l",
    default=None,
    help="Listen for notifications, or only poll.",
)
@click.option(
    "--delete-jobs",
    type=click.Choice(["never", "successful", "always"]),
    help="Keep no history of these.  [default: never]",
)
@click.option(
    "--keep-history",
    callback=duration,
    metavar="TIME",
    help="Drop days of the history that are older, for example 30d.  [default: keep all]",
)
@seconds(
    "--heartbeat",
    "--update-heartbeat-interval",
    help="How often to sign that it lives.  [default: 10]",
)
@click.option(
    "--stalled-after",
    "--stalled-worker-timeout",
    type=float,
    metavar="SECONDS",
    help="Take over the jobs of workers silent for this long.  [default: 30]",
)
@seconds(
    "--db-grace",
    help="End, with status 69, when the database was away for so long.  [default: never, but at once at the start]",
)
@click.option(
    "--max-lost-attempts",
    type=click.IntRange(1, 9),
    metavar="N",
    help="A job over which more workers died than this has failed.  [default: 5]",
)
@verbose_option
@pass_settings
def command(settings: Settings, /, dsn: str | None, processes: int, **given: Any) -> None:
    """Run jobs until told to stop.

    The first Ctrl-C, SIGTERM or SIGHUP lets running jobs end. The second aborts them, and ends the process within five
    seconds. The third ends it at once. A worker uses one core: with --processes there are more, and one that dies is
    replaced.
    """
    logs.configure(verbose=settings.verbose)
    if processes > 1:
        from inturn.cli import supervisor

        raise SystemExit(supervisor.run(settings.call, given["name"] or "worker", processes, dsn))
    dsn = _prepare(dsn)
    path = settings.app_path()
    if path is None:
        raise MissingApp("No app is named. Say where yours is: queue -a package.module:app worker")
    app = load_app(path, dsn)
    try:
        aborted_by = app.run_worker(**options(**given))
    except SchemaMismatch as error:
        # The app may name a database or a schema of its own, which the plain command would not find.
        advice = f"queue -a {path} migrate" + ("" if dsn is None else " --dsn …")
        raise SchemaMismatch(str(error).replace(MIGRATE, advice)) from error
    second = signal.Signals.__members__.get(aborted_by or "")
    if second is not None:  # to end at the first signal, or after the grace, is no failure
        raise SystemExit(128 + second)


def _prepare(dsn: str | None) -> str | None:
    """This process is a worker from now on, and perhaps one of a crew. Return the address of the database."""
    from inturn.cli import supervised
    from inturn.worker import signals

    us, dsn = supervised.join(dsn)
    signals.dedicate(None if us is None else us.tell_serving)
    if us is not None:
        us.heed()
    return dsn


def options(
    *,
    queues: tuple[str, ...],
    one_shot: bool | None,
    grace: float | None,
    poll: float | None,
    heartbeat: float | None,
    stalled_after: float | None,
    **same_name: Any,
) -> dict[str, Any]:
    """Only what was said: the rest is left to the app's worker_defaults."""
    said = {
        **same_name,
        "queues": [name for names in queues for part in names.split(",") if (name := part.strip())]
        or None,
        "wait": None if one_shot is None else not one_shot,
        "shutdown_graceful_timeout": grace,
        "fetch_job_polling_interval": poll,
        "update_heartbeat_interval": heartbeat,
        "stalled_worker_timeout": stalled_after,
    }
    return {name: value for name, value in said.items() if value is not None}
