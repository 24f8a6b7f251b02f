"""`queue worker`: run jobs."""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inturn.cli.output import logs
from inturn.cli.settings import (
    Settings,
    app_option,
    dsn_option,
    load_app,
    pass_settings,
    verbose_option,
)
from inturn.cli.values import ANY_PORT, Number, Seconds, duration
from inturn.errors import BadArgument, MissingApp, SchemaMismatch

if TYPE_CHECKING:
    from inturn.app import App

F = TypeVar("F", bound=Callable[..., Any])
PREFIX = "INTURN_WORKER_"
MIGRATE = "queue migrate"  # the advice of SchemaMismatch


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Add an option that a variable can also set, under each of its long names."""
    spelled = [word for name in names for word in name.split("/")[:1] if word.startswith("--")]
    variables = [f"{PREFIX}{word[2:].replace('-', '_').upper()}" for word in spelled]
    return click.option(*names, envvar=variables, **settings)


def seconds(*names: str, help: str, positive: bool = True) -> Callable[[F], F]:
    return option(*names, type=Seconds(positive=positive), help=help)


@click.command(
    "worker",
    epilog="""\b
Examples:
  queue -a shop.tasks:app worker
  queue -a shop.tasks:app worker -q mail,reports -c 10 --grace 30""",
)
@app_option
@dsn_option
@option(
    "-q",
    "--queues",
    metavar="A,B",
    multiple=True,
    help="Serve only these queues. No name means all.  [default: all]",
)
@option("-c", "--concurrency", type=Number(1), help="Run up to N jobs at once.  [default: 1]")
@option(
    "--processes",
    type=Number(1, 256),
    default=1,
    help="Run this many worker processes.  [default: 1]",
)
@option(
    "--cells",
    metavar="A,B-C",
    help="Serve these cells of the app, or `all`: --processes worker processes for each cell.",
)
@option(
    "-n",
    "--name",
    metavar="NAME",
    help="The worker's name in logs and lists.  [default: its host and process]",
)
@option(
    "--one-shot/--wait",
    "-1/-w",
    "--no-wait",
    default=None,
    help="When no job is left, wait for more or exit.  [default: wait]",
)
@seconds(
    "--grace",
    "--shutdown-graceful-timeout",
    "shutdown_graceful_timeout",
    positive=False,
    help="Abort jobs still running this long after the first signal.  [default: never]",
)
@seconds(
    "-p",
    "--poll",
    "--fetch-job-polling-interval",
    "fetch_job_polling_interval",
    help="Look for jobs at least this often.  [default: 5]",
)
@seconds(
    "--abort-job-polling-interval", help="Look for jobs to abort at least this often.  [default: 5]"
)
@option(
    "--listen-notify/--no-listen-notify",
    "-l",
    default=None,
    help="Listen for notifications, or only poll.  [default: listen]",
)
@option(
    "--delete-jobs",
    type=click.Choice(["never", "successful", "always"]),
    help="Delete these jobs when they end, without history.  [default: never]",
)
@option(
    "--keep-history",
    callback=duration,
    metavar="TIME",
    help="Drop days of history older than this, e.g. 30d.  [default: 7d]",
)
@seconds(
    "--heartbeat",
    "--update-heartbeat-interval",
    "update_heartbeat_interval",
    help="How often to record that the worker is alive.  [default: 10]",
)
@seconds(
    "--stalled-after",
    "--stalled-worker-timeout",
    "stalled_worker_timeout",
    help="Take over jobs from workers without a heartbeat for this long.  [default: 30]",
)
@seconds(
    "--db-grace",
    positive=False,
    help="Exit with status 69 when the database has been away for this long.  [default: never, but "
    "immediately at startup]",
)
@option(
    "--max-lost-attempts",
    type=Number(1, 9),
    help="Fail a job if more workers than this died while running it.  [default: 5]",
)
@option(
    "--max-jobs",
    type=Number(1),
    help="End after about N jobs, so that a new process takes over.  [default: never]",
)
@option(
    "--max-memory",
    type=Number(1, name="mb"),
    help="The same, once the process has used this many megabytes.  [default: never]",
)
@option(
    "--metrics-port",
    type=ANY_PORT,
    help="Serve this worker's Prometheus metrics on this port.  [default: none]",
)
@option(
    "--metrics-tasks/--no-metrics-tasks",
    default=None,
    help="One metrics series per task, or one for all.  [default: each]",
)
@option(
    "--health-port",
    type=ANY_PORT,
    help="Serve the worker's health on this port, which may be the same.  [default: none]",
)
@option(
    "--bind",
    metavar="ADDRESS",
    help="Serve both on this address: 0.0.0.0 for other machines.  [default: 127.0.0.1]",
)
@logs.log_options
@verbose_option
@pass_settings
def command(
    settings: Settings,
    /,
    processes: int,
    cells: str | None,
    log_level: str | None,
    log_format: str,
    **given: Any,
) -> None:
    """Run jobs until you stop it.

    The first Ctrl-C, SIGTERM or SIGHUP lets running jobs finish. The second aborts them and ends
    the process within five seconds. The third ends it immediately. A worker process uses one core.
    To use more, give --processes: a worker process that dies, or ends by --max-jobs or
    --max-memory, is replaced. The first one uses the ports of --metrics-port and --health-port, the
    others the ports after them.

    A worker process serves one cell, if the app has cells (docs/cells.md).

    A variable can set each option, such as INTURN_WORKER_QUEUES for --queues.

    Exits with status 0 after the first signal, and with 130 or 143 if the second had to abort jobs
    or the first came before the worker registered with the database.
    Other statuses: 2 wrong option or app, 11 wrong schema, 69 no database.
    """
    logs.configure(verbose=settings.verbose, level=log_level, form=log_format)
    path = settings.app_path()
    served = None if cells is None else _read_cells(cells, _find_app(path).connector.homes)
    if processes > 1 or len(served or ()) > 1:
        raise SystemExit(_supervise(settings, given, processes, served))
    dsn = _prepare(settings.dsn)
    app = _choose_cell(_find_app(path, dsn), served)
    logs.enable()
    try:
        gc.freeze()  # no collection walks what the app has imported
        aborted_by = app.run_worker(**options(**given))
    except SchemaMismatch as error:
        # The app may name a database or schema of its own, which `queue migrate` would not find.
        advice = f"queue -a {path} migrate" + ("" if dsn is None else " --dsn …")
        raise SchemaMismatch(str(error).replace(MIGRATE, advice)) from error
    except BadArgument as error:
        raise BadArgument(_spell(error.argument), error.problem) from error
    second = signal.Signals.__members__.get(aborted_by or "")
    if second is not None:  # ending at the first signal or after the grace is a success
        raise SystemExit(128 + second)


def _supervise(
    settings: Settings, given: Mapping[str, Any], processes: int, served: Sequence[int] | None
) -> int:
    """Run worker processes, so many for each cell, and return their exit status."""
    from inturn.cli.processes import supervisor

    ports = {"--metrics-port": given["metrics_port"], "--health-port": given["health_port"]}
    count = processes * len(served or (None,))
    name = given["name"] or f"{socket.gethostname()}:{os.getpid()}"
    names = supervisor.name_processes(name, count, ports)
    if served:
        names = {
            f"{name}-cell{cell}": [*words, "--cells", str(cell)]
            for (name, words), cell in zip(names.items(), cycle(served), strict=False)
        }
    return supervisor.run(settings.call, names, settings.dsn)


def _find_app(path: str | None, dsn: str | None = None) -> App:
    if path is None:
        raise MissingApp("No app is named. Name yours: queue -a package.module:app worker")
    return load_app(path, dsn)


def _read_cells(text: str, homes: Sequence[object]) -> list[int]:
    """Return the numbers in `0,2-3`, or of all cells."""
    most = len(homes) - 1
    if not most:
        raise click.UsageError(
            "The app has no cells. Omit --cells, or the address of the App, which then reads "
            "INTURN_CELLS."
        )
    if text == "all":
        return list(range(most + 1))
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise click.UsageError(f"--cells {text}: write all, 3, 0,2 or 0-3.")
        if not int(first) <= int(last or first) <= most:
            raise click.UsageError(f"--cells {text}: the cells of the app are 0 to {most}.")
        found |= {*range(int(first), int(last or first) + 1)}
    return sorted(found)


def _choose_cell(app: App, served: Sequence[int] | None) -> App:
    """Return the app on the cell of this worker process, if it has cells."""
    count = len(app.connector.homes)
    if count > 1 and served is None:
        raise click.UsageError(
            f"The app has {count} cells. To serve all from this machine, add --cells all."
        )
    return app if served is None else app.cell(served[0])


def _spell(argument: str) -> str:
    """Return the option for this argument, or the argument itself if it has no option."""
    name = "queues" if argument == "queue" else argument
    flags = (flag for each in command.params if each.name == name for flag in each.opts)
    return next((flag for flag in flags if flag.startswith("--")), argument)


def _prepare(dsn: str | None) -> str | None:
    """Make this a worker process, under a supervisor if there is one.

    Return the address of the database.
    """
    from inturn.cli.processes import supervised
    from inturn.worker import signals

    supervisor, dsn = supervised.join_supervisor(dsn)
    signals.dedicate(supervisor)
    if supervisor is not None:
        supervisor.drain_when_gone()
    return dsn


def options(*, queues: tuple[str, ...], one_shot: bool | None, **same_name: Any) -> dict[str, Any]:
    """Return only the given options. The app's worker_defaults decide the rest."""
    given = {
        **same_name,
        "queues": [name for names in queues for part in names.split(",") if (name := part.strip())]
        or None,
        "wait": None if one_shot is None else not one_shot,
    }
    return {name: value for name, value in given.items() if value is not None}
