"""The preview of a bulk change: its jobs or lanes, and its effect on the order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from inturn.operations.changes import bulk, bulk_effect
from inturn.operations.changes.bulk import JobPreview, LanePreview
from inturn.operations.changes.jobs import JobSummary
from inturn.operations.reading import job_pages
from inturn.web.bulk.request import CONFIRMED_BY_CLICK, PATHS, RIGHTS, BadBulk, JobBulk, LaneBulk
from inturn.web.page import NotThere, View
from inturn.web.reading import PageReader
from inturn.web.rendering import make_url

SECONDS = 10.0  # a person waits for it, and it reads all matches


@dataclass(frozen=True, slots=True)
class Preview:
    """The change that a person confirms."""

    seen: JobPreview | LanePreview
    effect: Sequence[str]
    sample: Sequence[JobSummary]
    until: datetime | None = None


def read_jobs(view: View) -> dict[str, Any]:
    query = view.request.query_params
    try:
        asked = JobBulk.read(view.get("action"), query, query.getlist("id"))
    except BadBulk as bad:
        raise NotThere(str(bad), _back(query.get("q", ""))) from bad
    preview = view.panel(lambda reader: _preview_jobs(reader, asked, view.now), SECONDS)
    back = ("/jobs", {"q": asked.text})
    return {**_describe(view, asked, "job"), "preview": preview, "back": back}


def read_lanes(view: View) -> dict[str, Any]:
    try:
        asked = LaneBulk.read(view.get("action"), view.request.query_params)
    except BadBulk as bad:
        raise NotThere(str(bad), "/lanes") from bad
    preview = view.panel(lambda reader: _preview_lanes(reader, asked), SECONDS)
    back = ("/lanes", {"state": asked.state, "prefix": asked.prefix})
    return {
        **_describe(view, asked, "lane"),
        "preview": preview,
        "back": back,
        "choices": [
            name
            for name, right in RIGHTS["lane"].items()
            if view.access.may(right) and _applies(name, asked.state)
        ],
    }


def _applies(action: str, state: str) -> bool:
    """Return True if an action applies to lanes in this state."""
    return not state or state in (bulk.STATES[action] or ("held", "retrying", "delayed", "idle"))


def _describe(view: View, asked: JobBulk | LaneBulk, noun: str) -> dict[str, Any]:
    return {
        "asked": asked,
        "noun": noun,
        "address": asked.address(),
        "post": f"{PATHS[noun]}/{asked.action}",
        "may_change": view.access.may(RIGHTS[noun][asked.action]),
        "verb": bulk_effect.VERBS[asked.action],
        "by_click": CONFIRMED_BY_CLICK,
    }


def _preview_jobs(reader: PageReader, asked: JobBulk, now: datetime) -> Preview:
    try:
        which = asked.resolve(reader.run, now)
    except BadBulk as bad:
        raise NotThere(str(bad), _back(asked.text)) from bad
    seen = reader.run(bulk.preview_jobs(asked.action, which))
    # The filter's "ended before" bounds the change, or else the time of the preview.
    which = replace(which, before=which.before or seen.until)
    jobs = reader.run(job_pages.list_by_id(seen.sample)) if seen.sample else []
    return Preview(seen, bulk_effect.describe_jobs(asked.action, seen), jobs, which.before)


def _back(text: str) -> str:
    return make_url("", "/jobs", {"q": text}).unescape()


def _preview_lanes(reader: PageReader, asked: LaneBulk) -> Preview:
    seen = reader.run(bulk.preview_lanes(asked.action, asked.which))
    return Preview(seen, bulk_effect.describe_lanes(asked.action, seen), [])
