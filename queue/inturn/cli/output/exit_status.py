"""The end of a command: an exit status for scripts, and one line about the error.

The line names the problem, the cause and the remedy.
"""

import logging
import os
import re
import sys
import threading
import traceback

import click

from inturn import errors
from inturn.cli.output.next_command import complete
from inturn.cli.output.terminal import is_coloured
from inturn.cli.settings import Settings
from inturn.formatting import visible

UNEXPECTED, USAGE, NOT_FOUND, CONFLICT, PARTLY, DECLINED, UNHEALTHY = 1, 2, 3, 4, 5, 6, 10
SCHEMA, UNAVAILABLE, INTERRUPTED = 11, 69, 130
OF_COMMANDS = ("--dsn", "--schema", "-o", "--output", "--json")  # nearly all commands have these
OLD_ADDRESS = re.compile(r'socket "[^"]*/inturn-dev-[^"/]*/[^"]*" failed: No such file')
NEW_ADDRESS = ". Start `queue dev` again. If it prints a new address, use that"
IDLE_THREAD_SECONDS = 0.5  # time for idle threads to end by themselves


class NotFound(errors.InturnError):
    """Nothing has this name or id."""


class Conflict(errors.InturnError):
    """It exists, but its state does not allow the action."""


class Unavailable(errors.InturnError):
    """The lock's store cannot be reached or refuses the request."""


class Unconfirmed(errors.InturnError):
    """The command needs confirmation, but there is no terminal."""


class Declined(errors.InturnError):
    """The user declined."""


# The first match decides.
STATUS: tuple[tuple[type[errors.InturnError], int], ...] = (
    (errors.SchemaMismatch, SCHEMA),
    (errors.DatabaseUnavailable, UNAVAILABLE),
    (errors.CellsUnanswered, UNAVAILABLE),
    (errors.EmbeddedServerError, UNAVAILABLE),
    (Unavailable, UNAVAILABLE),
    (errors.TaskNotFound, NOT_FOUND),
    (NotFound, NOT_FOUND),
    (Conflict, CONFLICT),
    (errors.LaneBusy, CONFLICT),
    (Unconfirmed, USAGE),
    (Declined, DECLINED),
    (errors.ConfigurationError, USAGE),
    (errors.BadArgument, USAGE),
    (errors.TaskDefinitionError, USAGE),
)


def report_error(error: BaseException, settings: Settings) -> int:
    """Print the error, and return the exit status."""
    verbose = settings.verbose
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # task groups wrap even a single error
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else UNEXPECTED if error.code else 0
    if isinstance(error, BrokenPipeError):  # the reader closed the pipe: `queue demo | head -1`
        # Without this, the interpreter complains when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNEXPECTED
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        _print_mistake(error)
        return error.exit_code
    if verbose:
        traceback.print_exception(error)
    if isinstance(error, errors.InturnError):
        hint = NEW_ADDRESS if OLD_ADDRESS.search(str(error)) else ""
        print_error(complete(f"{error}{hint}", settings))
        return get_status(error)
    if isinstance(error, UnicodeEncodeError):  # of an argument or a variable
        bad = error.object[error.start : error.end]
        print_error(f"{bad!r} is not text in {error.encoding.upper()}")
        return USAGE
    hint = "" if verbose else " (-v shows the traceback)"
    print_error(f"unexpected {type(error).__name__}: {error}{hint}")
    return UNEXPECTED


def leave_threads_behind(status: int) -> None:
    """End the process now if a worker has abandoned sync tasks.

    Otherwise, the interpreter would wait for their threads, perhaps forever.
    """
    tasks = [thread for thread in threading.enumerate() if thread.name == "AnyIO worker thread"]
    for thread in tasks:
        thread.join(IDLE_THREAD_SECONDS)
    if any(thread.is_alive() for thread in tasks):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def get_status(error: errors.InturnError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), UNEXPECTED)


def print_error(message: str) -> None:
    """Print a message on standard error, prefixed with `error:`."""
    coloured = is_coloured(sys.stderr)
    word = click.style("error:", fg="red", bold=True) if coloured else "error:"
    text = "\n".join(map(visible, message.split("\n")))
    click.echo(f"{word} {text}", err=True, color=coloured)


def _where_it_belongs(error: click.ClickException) -> str:
    """Return a hint if an option comes before its command."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None or error.ctx.parent:
        return ""
    is_ours = error.option_name in OF_COMMANDS
    return f" Give {error.option_name} after the command." if is_ours else ""


def _print_mistake(error: click.ClickException) -> None:
    """Print a usage error, and how to get help."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        click.echo(error.format_message(), err=True)  # click 8.2 and later: the message is the help
        return
    if context is not None:
        click.echo(context.get_usage(), err=True)
    print_error(f"{error.format_message()}{_where_it_belongs(error)}")
    if context is not None:
        click.echo(f"For help, run: {context.command_path} --help", err=True)
