"""The command line: `queue`.

Each command is a module of its own, imported when it is called; what is heavy (database driver, migrations, rich) a
command imports when it runs, so that `queue --help` and a mistyped option answer at once. Data goes to standard output, everything
else to standard error. How errors end is decided in one place, `exit_status`.
"""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType

import click

from inturn.cli.exit_status import end, leave_threads_behind
from inturn.cli.settings import ENTRY, Settings, app_option, verbose_option

# Modules of the folder commands.
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
    """Imports a command when it is asked for."""

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
    epilog="See it work: queue demo. Help on a command: queue worker --help.",
)
@app_option
@verbose_option
@click.version_option(package_name="inturn", message="inturn %(version)s")
def queue() -> None:
    """Jobs on PostgreSQL: those that share a lock run in turn, all others in parallel."""


def main(
    arguments: Sequence[str] | None = None,
    *,
    name: str = "queue",
    app: str | None = None,
    entry: Sequence[str] = ENTRY,
) -> None:
    """The console script, or another program's command of this name, with an app that need not be said.

    `entry`: what the interpreter is told to get here again, in a process of its own.
    """
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a script that starts us with & has it ignored
    signal.signal(signal.SIGTERM, _terminated)
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    settings = Settings(app, call=(*entry, *([] if app is None else ["-a", app]), *arguments))
    try:
        code = queue.main(arguments, prog_name=name, standalone_mode=False, obj=settings)
    except BaseException as error:
        code = end(error, verbose=settings.verbose)
    status = code if isinstance(code, int) else 0
    leave_threads_behind(status)
    sys.exit(status)


def _terminated(number: int, _: FrameType | None) -> None:
    # As an exception, so that an embedded server is stopped and a terminal is left in order.
    raise SystemExit(128 + number)
