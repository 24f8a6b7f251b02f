"""The progress and result of a bulk change."""

from typing import Any

from inturn.operations.changes import bulk_effect
from inturn.web.bulk.request import PATHS, RIGHTS
from inturn.web.bulk.runs import BulkRun
from inturn.web.page import View


def read(noun: str, view: View) -> dict[str, Any]:
    run: BulkRun | None = view.request.app.state.runs.get(view.get("run"))
    if run is not None and run.noun != noun:
        run = None
    names = ("action", "q", "ids", "abort", "before", "state", "prefix")
    return {
        "run": run,
        "noun": noun,
        "path": PATHS[noun],
        "address": {name: view.get(name) for name in names},
        "may_change": run is not None and view.access.may(RIGHTS[noun][run.action]),
        "verb": bulk_effect.VERBS[run.action] if run else "",
        "past": bulk_effect.PAST[run.action] if run else "",
        "reasons": bulk_effect.REASONS,
    }
