"""Pauses in commands: the options reason and end, and the words for people."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import click

from inturn.cli.database import Database
from inturn.cli.output.exit_status import Conflict
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output
from inturn.cli.settings import combine
from inturn.cli.values import duration_option, moment_option
from inturn.doctor.pauses import describe_pause, get_resume_command
from inturn.formatting import on_clock
from inturn.operations.changes.pauses import PausedQueue, PausedTask

pause_options = combine(
    click.option("--reason", metavar="WHY", help="Why you pause it, shown in lists."),
    moment_option("--until", help="Resume it at this time, e.g. 2030-01-31T12:00:00Z."),
    duration_option("--for", "length", help="Resume it after this long, e.g. 10m."),
)


def check_end(until: datetime | None, length: timedelta | None) -> None:
    """Raise a UsageError unless the options give at most one end, in the future."""
    if until is not None and length is not None:
        raise click.UsageError("You cannot give both --until and --for.")
    if length == timedelta(0):
        raise click.UsageError("--for must be longer than zero.")
    if until is not None and until <= datetime.now(UTC):
        raise click.UsageError("--until must be in the future.")


def describe_end(until: datetime | None, now: datetime) -> str:
    return "until you resume it" if until is None else f"until {on_clock(until, now)}"


def print_pause(
    database: Database, form: str, name: str, found: Iterable[PausedQueue | PausedTask]
) -> None:
    """Print the pause that a command has made, the only one found under this name."""
    pause = next(iter(found), None)
    if pause is None:
        raise Conflict(f"The pause of {name} has already ended.")
    end = describe_end(pause.until, database.now())
    Output(form).record({"pause": pause}, f"paused {name} {end}")


def name_pauser(pause: PausedQueue | PausedTask | None) -> str:
    """Return who paused it and why, such as `by eve: supplier is down`."""
    if pause is None:
        return ""
    return f"by {pause.by}{f': {pause.reason}' if pause.reason else ''}"


def explain_pause(pause: PausedQueue | PausedTask, now: datetime) -> str:
    """Return what is paused and why, and the command that resumes it."""
    return f"{describe_pause(pause, now)}: {complete(get_resume_command(pause))}"
