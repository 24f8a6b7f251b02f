"""The progress and result of a bulk change."""

from __future__ import annotations

from typing import Any

from inturn.operations.changes import bulk_effect
from inturn.web.bulk.request import JOB_RIGHTS, LANE_RIGHTS
from inturn.web.bulk.runs import BulkRuns
from inturn.web.page import Page, View


def read_jobs(view: View) -> dict[str, Any]:
    """Return the progress of a bulk change of jobs."""
    return _read(view, "job", "/bulk", JOB_RIGHTS)


def read_lanes(view: View) -> dict[str, Any]:
    """Return the progress of a bulk change of lanes."""
    return _read(view, "lane", "/bulk/lanes", LANE_RIGHTS)


def _read(view: View, noun: str, path: str, rights: dict[str, str]) -> dict[str, Any]:
    runs: BulkRuns = view.request.app.state.runs
    run = runs.get(view.get("run"))
    if run is not None and run.noun != noun:
        run = None
    names = ("action", "q", "ids", "abort", "before", "state", "prefix")
    return {
        "run": run,
        "noun": noun,
        "path": path,
        "address": {name: view.get(name) for name in names if view.get(name)},
        "may_change": run is not None and view.access.may(rights[run.action]),
        "verb": bulk_effect.VERBS[run.action] if run else "",
        "past": bulk_effect.PAST[run.action] if run else "",
        "reasons": bulk_effect.REASONS,
    }


PAGES = (
    Page("/bulk/run", "jobs", "bulk_run.html", read_jobs, "Change of jobs"),
    Page("/bulk/lanes/run", "lanes", "bulk_run.html", read_lanes, "Change of lanes"),
)
