"""Start and stop bulk changes of jobs and lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from inturn.operations.changes import bulk
from inturn.operations.engine import maintenance
from inturn.web.actions import Action, Change, Done, Refused
from inturn.web.bulk.request import (
    JOB_RIGHTS,
    LANE_RIGHTS,
    BadBulk,
    JobBulk,
    LaneBulk,
    check_number,
    read_until,
)
from inturn.web.bulk.runs import MOST_AT_ONCE, BulkRun, BulkRuns, RunPlan, TooManyRuns
from inturn.web.rendering import make_url

T = TypeVar("T")


def change_jobs(action: str, change: Change) -> Done:
    """Start a bulk change of jobs, if it still matches the preview."""
    asked = _check(change, "/bulk", lambda: JobBulk.read(action, change.request.query_params, []))

    def plan() -> RunPlan:
        until = read_until(change.form)
        which = replace(asked.resolve(change.run, change.run(maintenance.get_now())), before=until)
        seen = change.run(bulk.preview_jobs(asked.action, which))
        check_number(seen.count, change.form, "job")
        return RunPlan(
            *("job", action, change.by, seen.count, seen.more),
            {**asked.address(), "before": until.isoformat()},
            lambda done, watch: bulk.change_jobs(
                asked.action, which, done, abort=asked.abort, by=change.by, watch=watch
            ),
        )

    return _begin(change, _check(change, "/bulk", plan, asked.address()))


def change_lanes(action: str, change: Change) -> Done:
    """Start a bulk change of lanes."""
    asked = _check(
        change, "/bulk/lanes", lambda: LaneBulk.read(action, change.request.query_params)
    )

    def plan() -> RunPlan:
        seen = change.run(bulk.preview_lanes(asked.action, asked.which))
        check_number(seen.count, change.form, "lane")
        return RunPlan(
            *("lane", action, change.by, seen.count, seen.more),
            asked.address(),
            lambda done, watch: bulk.change_lanes(
                asked.action, asked.which, done, by=change.by, watch=watch
            ),
        )

    return _begin(change, _check(change, "/bulk/lanes", plan, asked.address()))


def stop(noun: str, action: str, change: Change) -> Done:
    """Stop a run after its current step."""
    run = _runs(change).get(change.request.query_params.get("run", ""))
    if run is None or (run.noun, run.action) != (noun, action):
        raise Refused("This dashboard process does not know this change.", "/jobs")
    run.is_to_stop.set()
    return _show(run, "bulk-stopping")


def _begin(change: Change, plan: RunPlan) -> Done:
    back = "/bulk" if plan.noun == "job" else "/bulk/lanes"
    try:
        return _show(_runs(change).begin(plan), "bulk-begun")
    except TooManyRuns:
        raise Refused(
            f"{MOST_AT_ONCE} bulk changes are already running. Wait until one has ended.",
            _back(back, plan.query),
        ) from None


def _show(run: BulkRun, word: str) -> Done:
    path = "/bulk/run" if run.noun == "job" else "/bulk/lanes/run"
    return Done(word, path, {**run.query, "run": run.name})


def _check(
    change: Change, path: str, read: Callable[[], T], query: dict[str, str] | None = None
) -> T:
    try:
        return read()
    except BadBulk as bad:
        given = query if query is not None else dict(change.request.query_params)
        raise Refused(str(bad), _back(path, given)) from bad


def _back(path: str, query: dict[str, str]) -> str:
    return make_url("", path, query).unescape()


def _runs(change: Change) -> BulkRuns:
    runs: BulkRuns = change.request.app.state.runs
    return runs


BULK_ACTIONS = (
    *(
        Action(f"/bulk/{name}{path}", right, partial(change, name))
        for name, right in JOB_RIGHTS.items()
        for path, change in (("", change_jobs), ("/stop", partial(stop, "job")))
    ),
    *(
        Action(f"/bulk/lanes/{name}{path}", right, partial(change, name))
        for name, right in LANE_RIGHTS.items()
        for path, change in (("", change_lanes), ("/stop", partial(stop, "lane")))
    ),
)
