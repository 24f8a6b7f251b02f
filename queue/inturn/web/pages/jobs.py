"""Jobs: the newest matching jobs, in pages, with the filter in the URL."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from inturn.arguments import Unreadable, decode
from inturn.operations.changes.jobs import JobFilter, JobSummary
from inturn.operations.reading import failures, job_pages
from inturn.operations.reading.job_pages import LOOKED, JobPage
from inturn.states import ENDED, STATUSES, TAKEN, WAITING
from inturn.web.jobs.filter import EXAMPLES, Asked, quote, read_filter
from inturn.web.page import View
from inturn.web.reading import BADGE_SECONDS, PageReader
from inturn.web.redaction import HIDDEN, show_arguments
from inturn.whole_numbers import read_id

LISTED = 50
LONGEST_PREVIEW = 100  # characters


@dataclass(frozen=True, slots=True)
class JobRow:
    job: JobSummary
    arguments: str | None
    word: str  # what happened at `at`
    at: datetime


@dataclass(frozen=True, slots=True)
class Tab:
    """A state to select, and its number of jobs. None: not counted."""

    state: str
    query: str
    count: tuple[int, bool] | None


def read(view: View) -> dict[str, Any]:
    asked = read_filter(view.get("q").strip(), view.now)
    before = read_id(view.get("before"))
    found = view.panel(lambda reader: _read_rows(view, reader, asked, before))
    rows = found.value or []
    return {
        "asked": asked,
        "chips": [(term.raw, asked.without(term.name)) for term in asked.terms],
        "tabs": _make_tabs(view, asked),
        "examples": EXAMPLES,
        "found": found,
        "rows": rows[:LISTED],
        "older": rows[LISTED - 1].job.id if len(rows) > LISTED else None,
        "before": before,
        "cut": _say_what_is_searched(asked),
        "may_change": any(view.access.may(right) for right in ("retry", "cancel", "delete")),
        "quote": quote,
    }


def show_preview(task: str, arguments: str | None, view: View) -> str | None:
    """Return the first arguments on one line, without likely secrets."""
    if arguments is None:
        return None
    decoded = decode(arguments)
    if isinstance(decoded, Unreadable):
        return "(cannot be read)"
    shown = show_arguments(task, decoded, view.redact)
    if shown == HIDDEN:
        return HIDDEN
    text = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False, default=str)}"
        for name, value in shown.items()
    )
    return text if len(text) <= LONGEST_PREVIEW else f"{text[:LONGEST_PREVIEW]}…"


def describe_time(job: JobSummary) -> tuple[str, datetime]:
    """Return the job's last event and its time, or its due time."""
    if job.finished_at is not None:
        return "ended", job.finished_at
    if job.status in TAKEN and job.started_at is not None:
        return "started", job.started_at
    if job.status == "scheduled" and job.scheduled_at is not None:
        return "due", job.scheduled_at
    return "deferred", job.created_at


def _read_rows(
    view: View, reader: PageReader, asked: Asked, before: int | None
) -> Sequence[JobRow]:
    if asked.problems:
        return []
    ids = None if asked.like is None else reader.run(failures.list_alike(asked.like))
    which = replace(asked.which, before_id=before)
    page = JobPage(which, asked.task_prefix, ids, LISTED + 1)
    sees = view.access.may("view_args")
    found = reader.run(job_pages.list_page(page, with_arguments=sees))
    return [
        JobRow(
            each.job, show_preview(each.job.task, each.arguments, view), *describe_time(each.job)
        )
        for each in found
    ]


def _make_tabs(view: View, asked: Asked) -> list[Tab]:
    names = {term.name for term in asked.terms}
    states: tuple[str, ...] = (
        WAITING if "waited" in names else ENDED if "ended" in names else STATUSES
    )
    states = ("failed",) if "like" in names else states
    counts: dict[str, tuple[int, bool]] = {}
    if asked.can_count:
        which: JobFilter = replace(asked.which, statuses=())
        panel = view.read(job_pages.count_by_status(which, states), BADGE_SECONDS)
        counts = panel.value or {}
    chosen = asked.text if not asked.statuses else asked.without("state")
    return [
        Tab("", chosen, None),
        *(Tab(state, asked.with_state(state), counts.get(state)) for state in states),
    ]


def _say_what_is_searched(asked: Asked) -> str | None:
    """Return which jobs the filter may have missed, if any."""
    if asked.problems:
        return None
    looked = f"Searches the newest {LOOKED:,} jobs that match the other terms."
    if asked.which in (JobFilter(), JobFilter(id=asked.which.id)):
        return looked if asked.task_prefix else None
    states = set(asked.statuses or STATUSES)
    ended = states & set(ENDED)
    searched = asked.which.describe_search(live=states != ended, ended=bool(ended))
    if asked.task_prefix or asked.like:
        return f"{looked} It finds these among {searched}."
    return f"Searches {searched}."
