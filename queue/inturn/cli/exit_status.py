"""How a command ends: one line that says what, why and what to do, and a status that scripts can rely on."""

import logging
import os
import sys
import threading
import traceback

import click

from inturn import errors
from inturn.cli.formatting import visible

UNEXPECTED, USAGE, NOT_FOUND, CONFLICT, PARTLY, DECLINED, UNHEALTHY = 1, 2, 3, 4, 5, 6, 10
SCHEMA, UNAVAILABLE, INTERRUPTED = 11, 69, 130
IDLE_THREAD_SECONDS = 0.5  # to end by itself


class NotFound(errors.InturnError):
    """There is nothing by that name or number."""


class Conflict(errors.InturnError):
    """It is there, but in no state in which that can be done to it."""


class Unconfirmed(errors.InturnError):
    """Somebody would have to be asked, and nobody can be."""


class Declined(errors.InturnError):
    """The person was asked, and said no."""


# The first that fits.
STATUS: tuple[tuple[type[errors.InturnError], int], ...] = (
    (errors.SchemaMismatch, SCHEMA),
    (errors.DatabaseUnavailable, UNAVAILABLE),
    (errors.EmbeddedServerError, UNAVAILABLE),
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


def end(error: BaseException, *, verbose: bool) -> int:
    """Report the error; return the exit status."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # task groups wrap even a single one
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else UNEXPECTED if error.code else 0
    if isinstance(
        error, BrokenPipeError
    ):  # whoever read us has seen enough: `queue demo | head -1`
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # or the interpreter complains when it flushes
        return UNEXPECTED
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if verbose:
        traceback.print_exception(error)
    if isinstance(error, errors.InturnError):
        say(str(error))
        return status_of(error)
    say(
        f"unexpected {type(error).__name__}: {error}"
        + ("" if verbose else " (-v shows the traceback)")
    )
    return UNEXPECTED


def leave_threads_behind(status: int) -> None:
    """End the process now if a worker has given up sync tasks: the interpreter would wait for their threads, perhaps for ever."""
    tasks = [thread for thread in threading.enumerate() if thread.name == "AnyIO worker thread"]
    for thread in tasks:
        thread.join(IDLE_THREAD_SECONDS)
    if any(thread.is_alive() for thread in tasks):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def status_of(error: errors.InturnError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), UNEXPECTED)


def say(message: str) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True)
    console.print(
        Text.assemble(("error:", "bold red"), " ", "\n".join(map(visible, message.split("\n"))))
    )
    sys.stderr.flush()
