"""The command line: `queue`.

Each command is a module in `commands`, and is imported when you call it.
A command imports what is slow to load (the database driver, the migrations, rich) only when it
runs, so `queue --help` and a mistyped option answer at once.
Data goes to standard output, and everything else to standard error.
`exit_status` decides how each error ends.
"""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType

import click

from inturn.cli.exit_status import leave_threads_behind, report_error
from inturn.cli.settings import ENTRY, Settings, app_option, verbose_option

# The modules in the folder `commands`.
COMMANDS = (
    "bench",
    "defer",
    "demo",
    "dev",
    "doctor",
    "healthchecks",
    "jobs",
    "lanes",
    "locks",
    "migrate",
    "queues",
    "schedules",
    "schema",
    "shell",
    "worker",
    "workers",
)


class Commands(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"inturn.cli.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? Run: queue demo. For help on a command: queue worker --help.",
)
@app_option
@verbose_option
@click.version_option(package_name="inturn", message="inturn %(version)s")
def queue() -> None:
    """Run and inspect jobs on PostgreSQL.

    Jobs that share a lock run one at a time and in order. All others run in parallel.
    """


def main(
    arguments: Sequence[str] | None = None,
    *,
    name: str = "queue",
    app: str | None = None,
    entry: Sequence[str] = ENTRY,
) -> None:
    """Run the command line, as a console script or inside another program, and exit.

    `app` is the app to use if the arguments name none.
    `entry` holds the interpreter's arguments that run this command line in a new process.
    """
    # A shell script that starts us with & makes us ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _raise_exit)
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    settings = Settings(app, call=(*entry, *([] if app is None else ["-a", app]), *arguments))
    status = run(arguments, settings, name)
    leave_threads_behind(status)
    sys.exit(status)


def run(arguments: Sequence[str], settings: Settings, name: str = "queue") -> int:
    """Run one command, report its error if there is one, and return the exit status."""
    try:
        code = queue.main(list(arguments), prog_name=name, standalone_mode=False, obj=settings)
    except BaseException as error:
        return report_error(error, verbose=settings.verbose)
    return code if isinstance(code, int) else 0


def _raise_exit(number: int, _: FrameType | None) -> None:
    # An exception lets us stop an embedded server and leave the terminal in order.
    raise SystemExit(128 + number)
