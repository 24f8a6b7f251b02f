"""`queue schedules`: list periodic tasks and their next times."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice

import click

from inturn.cli.database import Database, with_database
from inturn.cli.output.list_group import ListGroup
from inturn.cli.output.next_command import complete
from inturn.cli.output.printing import Output, output_options
from inturn.cli.settings import Settings, load_app
from inturn.cli.values import Number
from inturn.formatting import on_clock, relative
from inturn.operations.engine import schedules
from inturn.operations.engine.schedules import KnownSchedule, StoredSchedule

ALL = 10_000


@dataclass(frozen=True)
class ListedSchedule:
    """A schedule as the app declares it or, without an app, as workers registered it."""

    task: str
    periodic_id: str
    cron: str
    tz: str
    next: datetime | None
    last_instant: datetime | None
    last_job_id: int | None
    note: str


@dataclass(frozen=True)
class Instant:
    at: datetime
    task: str
    periodic_id: str
    tz: str


@click.group(
    "schedules",
    cls=ListGroup,
    epilog="Example: queue -a shop.tasks:app schedules list (or just: schedules)",
)
def command() -> None:
    """List periodic tasks and their next times."""


@command.command("list", epilog="Example: queue -a shop.tasks:app schedules list")
@output_options
@with_database
def list_schedules(database: Database, form: str) -> None:
    """List schedules, each with its next time and last job.

    Lists the schedules that workers have registered and, if you name your app, those it declares.
    """
    now = database.now()
    lines = _lines(database, now)
    columns = {
        "TASK": lambda line: line.task,
        "ID": lambda line: line.periodic_id,
        "CRON": lambda line: line.cron,
        "ZONE": lambda line: line.tz,
        "NEXT": lambda line: on_clock(line.next, now) if line.next else "never",
        "LAST": lambda line: relative(line.last_instant, now),
        "JOB": lambda line: "" if line.last_job_id is None else str(line.last_job_id),
        "NOTE": lambda line: line.note,
    }
    app = "" if _settings().app_path() else ", and name your app with -a package.module:app"
    nothing = f"No task is periodic yet. Declare one with @app.periodic{app}."
    Output(form).records(lines, columns, nothing)


@command.command("next", epilog="Example: queue -a shop.tasks:app schedules next --count 20")
@click.option(
    "--count", type=Number(1, ALL), default=10, show_default=True, help="How many times to list."
)
@output_options
@with_database
def next_instants(database: Database, count: int, form: str) -> None:
    """List the next times of all schedules, soonest first."""
    now = database.now()
    ahead = [_ahead(line, now) for line in _lines(database, now, gone=False)]
    instants = list(islice(merge(*ahead, key=lambda instant: instant.at), count))
    columns = {
        "AT": lambda instant: on_clock(instant.at, now),
        "THERE": _in_own_zone,
        "TASK": lambda instant: instant.task,
        "ID": lambda instant: instant.periodic_id,
    }
    Output(form).records(instants, columns, "No schedule will ever fire.")


def _lines(database: Database, now: datetime, *, gone: bool = True) -> list[ListedSchedule]:
    """Return all schedules, or without those that the named app no longer has."""
    stored = {
        (row.task, row.periodic_id): row for row in database.run(schedules.list_schedules(ALL))
    }
    path, cell = _settings().app_path(), _settings().cell
    lines = []
    if path is not None:
        app = load_app(path)
        for schedule in (app if cell is None else app.cell(cell)).schedules():
            key = (schedule.task.name, schedule.periodic_id)
            known = KnownSchedule(*key, schedule.cron.expression, schedule.cron.tz)
            lines.append(_line(known, stored.pop(key, None), now))
    if path is None or gone:
        note = "" if path is None else f"not in {path}"
        for key, row in stored.items():
            lines.append(_line(KnownSchedule(*key, row.cron, row.tz), row, now, note))
    return sorted(lines, key=lambda line: (line.task, line.periodic_id))


def _settings() -> Settings:
    return click.get_current_context().ensure_object(Settings)


def _line(
    known: KnownSchedule, row: StoredSchedule | None, now: datetime, note: str = ""
) -> ListedSchedule:
    from inturn.schedules.cron import Cron

    # Later than now if a wrong clock set it ahead.
    resumption = now if row is None else schedules.find_resumption(row, now)
    following = Cron(known.cron, known.tz).next(resumption)
    if row is None:
        return ListedSchedule(*known, following, None, None, "no worker has seen it yet")
    if (row.cron, row.tz) != (known.cron, known.tz):
        note = f"workers use {row.cron} in {row.tz}"
    elif row.last_instant is not None and resumption > now:
        then = on_clock(row.last_instant, now)
        note = complete(f"does not fire before {then}, because a clock was wrong: queue doctor")
    return ListedSchedule(*known, following, row.last_instant, row.last_job_id, note)


def _ahead(line: ListedSchedule, now: datetime) -> Iterator[Instant]:
    from inturn.schedules.cron import Cron

    # Before its next time it does not fire: a wrong clock may have set it ahead.
    from_then = now if line.next is None else max(now, line.next - timedelta(microseconds=1))
    for at in Cron(line.cron, line.tz).after(from_then):
        yield Instant(at, line.task, line.periodic_id, line.tz)


def _in_own_zone(instant: Instant) -> str:
    from inturn.schedules.cron import Cron

    at = instant.at.astimezone(Cron("@daily", instant.tz).zone)
    return f"{at:%a %Y-%m-%d %H:%M:%S} {instant.tz}"
