"""Schedules: the next runs of periodic tasks, in words and as times."""

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from inturn.errors import BadArgument
from inturn.operations.engine import schedules
from inturn.operations.engine.schedules import StoredSchedule, name_schedule
from inturn.operations.reading.measures import WorkerMeasures
from inturn.operations.reading.parts import read_parts
from inturn.schedules.cron import Cron
from inturn.web.page import View
from inturn.web.reading import PageReader

LISTED = 50
NEXT = 4  # instants of each schedule
NO_WORKER = "does not fire, because no live worker has it"
AHEAD_OF_TIME = "has fired for a future time, and does not fire again before it"


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A schedule in words, with the next times at which it fires."""

    stored: StoredSchedule
    words: str
    next: list[datetime]
    note: str | None


def read(view: View) -> dict[str, Any]:
    found = view.panel(lambda reader: _read(reader, view.now))
    lines = found.value or []
    return {"found": found, "lines": lines[:LISTED], "cut": len(lines) > LISTED, "listed": LISTED}


def _read(reader: PageReader, now: datetime) -> list[ScheduleLine]:
    found = reader.run(read_parts(WorkerMeasures, reader.schema))
    live = found.live_schedules
    return [
        make_line(each, name_schedule(each.task, each.periodic_id) in live, now)
        for each in found.schedules[: LISTED + 1]
    ]


def make_line(stored: StoredSchedule, is_live: bool, now: datetime) -> ScheduleLine:
    try:
        cron = Cron(stored.cron, stored.tz)
    except BadArgument as error:  # a later version may know more
        return ScheduleLine(stored, "", [], str(error))
    resumption = schedules.find_resumption(stored, now)
    following = list(islice(cron.after(resumption), NEXT))
    if resumption > now:
        note: str | None = AHEAD_OF_TIME
    else:
        note = None if is_live else NO_WORKER
    return ScheduleLine(stored, cron.describe(), following, note)
