"""Start and stop bulk changes of jobs and lanes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from inturn.operations.changes import bulk
from inturn.operations.engine import maintenance
from inturn.web.actions import Action, Change, Done, Refused
from inturn.web.bulk.request import (
    PATHS,
    RIGHTS,
    BadBulk,
    JobBulk,
    LaneBulk,
    check_number,
    read_until,
)
from inturn.web.bulk.runs import MOST_AT_ONCE, BulkRun, BulkRuns
from inturn.web.rendering import make_url

T = TypeVar("T")


def change_jobs(action: str, change: Change) -> Done:
    """Start a bulk change of jobs, if it still matches the preview."""
    asked = _check(change, "job", lambda: JobBulk.read(action, change.request.query_params, []))

    def plan() -> BulkRun:
        until = read_until(change.form)
        which = replace(asked.resolve(change.run, change.run(maintenance.get_now())), before=until)
        seen = change.run(bulk.preview_jobs(asked.action, which))
        check_number(seen.count, change.form, "job")
        return BulkRun(
            *("job", action, change.by, seen.count, seen.more),
            {**asked.address(), "before": until.isoformat()},
            lambda done, watch: bulk.change_jobs(
                asked.action, which, done, abort=asked.abort, by=change.by, watch=watch
            ),
        )

    return _begin(change, _check(change, "job", plan, asked.address()))


def change_lanes(action: str, change: Change) -> Done:
    asked = _check(change, "lane", lambda: LaneBulk.read(action, change.request.query_params))

    def plan() -> BulkRun:
        seen = change.run(bulk.preview_lanes(asked.action, asked.which))
        check_number(seen.count, change.form, "lane")
        return BulkRun(
            *("lane", action, change.by, seen.count, seen.more),
            asked.address(),
            lambda done, watch: bulk.change_lanes(
                asked.action, asked.which, done, by=change.by, watch=watch
            ),
        )

    return _begin(change, _check(change, "lane", plan, asked.address()))


def stop(noun: str, action: str, change: Change) -> Done:
    """Stop a run after its current step."""
    run = _runs(change).get(change.request.query_params.get("run", ""))
    if run is None or (run.noun, run.action) != (noun, action):
        raise Refused("This dashboard process does not know this change.", "/jobs")
    run.is_to_stop.set()
    return _show(run, "bulk-stopping")


def _begin(change: Change, run: BulkRun) -> Done:
    if not _runs(change).begin(run):
        raise Refused(
            f"{MOST_AT_ONCE} bulk changes are already running. Wait until one has ended.",
            _back(run.noun, run.query),
        )
    return _show(run, "bulk-begun")


def _show(run: BulkRun, word: str) -> Done:
    return Done(word, f"{PATHS[run.noun]}/run", {**run.query, "run": run.name})


def _check(
    change: Change, noun: str, read: Callable[[], T], query: dict[str, str] | None = None
) -> T:
    try:
        return read()
    except BadBulk as bad:
        given = query if query is not None else dict(change.request.query_params)
        raise Refused(str(bad), _back(noun, given)) from bad


def _back(noun: str, query: dict[str, str]) -> str:
    return make_url("", PATHS[noun], query).unescape()


def _runs(change: Change) -> BulkRuns:
    runs: BulkRuns = change.request.app.state.runs
    return runs


BULK_ACTIONS = tuple(
    Action(f"{PATHS[noun]}/{name}{path}", right, partial(action, name))
    for noun, change in (("job", change_jobs), ("lane", change_lanes))
    for name, right in RIGHTS[noun].items()
    for path, action in (("", change), ("/stop", partial(stop, noun)))
)
