"""The command line: `queue`.

Each command is a module in `commands`, imported when you call it.
Slow imports (the database driver, the migrations, rich) happen only when a command runs, so
`queue --help` and mistyped options answer at once.
Data goes to standard output, and everything else to standard error.
`exit_status` decides how each error ends.
"""

import logging
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType

import click

from inturn.cli.output.exit_status import leave_threads_behind, report_error
from inturn.cli.output.terminal import prepare
from inturn.cli.processes.dev_server import use_dev_server
from inturn.cli.settings import ENTRY, Settings, Terminated, app_option, verbose_option
from inturn.cli.suggestions import did_you_mean
from inturn.cli.version import print_version

SCRIPTS = ("queue", "inturn")  # the same program under two names

COMMANDS = sorted(file.stem for file in Path(__file__).with_name("commands").glob("[!_]*.py"))

EPILOG = """\b
Exit status: 0 done, 1 unexpected, 2 wrong usage, 3 not found,
  4 not possible now, 5 partly done, 6 declined, 10 unhealthy,
  11 wrong schema, 69 no database, 130 and 143 interrupted.
  More: https://github.com/inturn/inturn/blob/main/docs/cli.md

\b
New here? Run: {name} demo
For help on a command: {name} worker --help"""


class Commands(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"inturn.cli.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}.{self._suggest(ctx, name)}")
        return super().resolve_command(ctx, args)

    def _suggest(self, ctx: click.Context, name: str) -> str:
        # At night you type `queue explain`, and it is in a group, or in two.
        groups = ((each, self.get_command(ctx, each)) for each in COMMANDS)
        found = [
            f"{ctx.command_path} {each} {name}"
            for each, group in groups
            if isinstance(group, click.Group) and name in group.commands
        ]
        return f" There is: {', '.join(found)}" if found else did_you_mean(name, COMMANDS)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Advise under the name you typed, such as `manage.py queue`."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(EPILOG.format(name=ctx.command_path))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@app_option
@verbose_option
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Show the version of inturn and, if you name a database, of its server and schema.",
)
def queue() -> None:
    """Run and inspect jobs on PostgreSQL.

    Jobs that share a lock run one at a time, in order. All others run in parallel.
    """


def main(
    arguments: Sequence[str] | None = None,
    *,
    name: str | None = None,
    app: str | None = None,
    entry: Sequence[str] = ENTRY,
) -> None:
    """Run the command line, as a console script or inside another program, and exit.

    `name` is the command the user types, by default the script's name.
    `app` is used if the arguments name no app.
    `entry` holds the interpreter's arguments that run this command line in a new process.
    """
    prepare()
    # A shell script that starts us with & sets SIGINT to ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _raise_exit)
    # It warns that an interrupted statement cannot be rolled back. The server does that.
    logging.getLogger("psycopg.transaction").setLevel(logging.ERROR)
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    name = name or (Path(sys.argv[0]).name if Path(sys.argv[0]).name in SCRIPTS else SCRIPTS[0])
    use_dev_server()
    call = (*entry, *([] if app is None else ["-a", app]), *arguments)
    status = run(arguments, Settings(app, call=call, program=name), name)
    leave_threads_behind(status)
    sys.exit(status)


def run(arguments: Sequence[str], settings: Settings, name: str = "queue") -> int:
    """Run one command, report any error, and return the exit status."""
    try:
        code = queue.main(list(arguments), prog_name=name, standalone_mode=False, obj=settings)
    except BaseException as error:
        return report_error(error, settings)
    return code if isinstance(code, int) else 0


def _raise_exit(number: int, _: FrameType | None) -> None:
    # An exception lets us stop an embedded server and leave the terminal in order.
    raise Terminated(128 + number)
