"""Start and stop bulk changes of jobs and lanes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

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
from inturn.web.bulk.runs import MOST_AT_ONCE, BulkRun
from inturn.web.rendering import make_url


def change_jobs(action: str, change: Change) -> Done:
    """Start a bulk change of jobs, if it still matches the preview."""
    with _refusing("job", change.request.query_params):
        asked = JobBulk.read(action, change.request.query_params, [])
    with _refusing("job", asked.address()):
        until = read_until(change.form)
        which = replace(asked.resolve(change.run, change.run(maintenance.get_now())), before=until)
        seen = change.run(bulk.preview_jobs(asked.action, which))
        check_number(seen.count, change.form, "job")
    run = BulkRun(
        *("job", action, change.by, seen.count, seen.more),
        {**asked.address(), "before": until.isoformat()},
        lambda done, watch: bulk.change_jobs(
            asked.action, which, done, abort=asked.abort, by=change.by, watch=watch
        ),
    )
    return _begin(change, run)


def change_lanes(action: str, change: Change) -> Done:
    with _refusing("lane", change.request.query_params):
        asked = LaneBulk.read(action, change.request.query_params)
    with _refusing("lane", asked.address()):
        seen = change.run(bulk.preview_lanes(asked.action, asked.which))
        check_number(seen.count, change.form, "lane")
    run = BulkRun(
        *("lane", action, change.by, seen.count, seen.more),
        asked.address(),
        lambda done, watch: bulk.change_lanes(
            asked.action, asked.which, done, by=change.by, watch=watch
        ),
    )
    return _begin(change, run)


def stop(noun: str, action: str, change: Change) -> Done:
    """Stop a run after its current step."""
    name = change.request.query_params.get("run", "")
    run: BulkRun | None = change.request.app.state.runs.get(name)
    if run is None or (run.noun, run.action) != (noun, action):
        raise Refused("This dashboard process does not know this change.", "/jobs")
    run.is_to_stop.set()
    return _show(run, "bulk-stopping")


def _begin(change: Change, run: BulkRun) -> Done:
    if not change.request.app.state.runs.begin(run):
        raise Refused(
            f"{MOST_AT_ONCE} bulk changes are already running. Wait until one has ended.",
            _back(run.noun, run.query),
        )
    return _show(run, "bulk-begun")


def _show(run: BulkRun, word: str) -> Done:
    return Done(word, f"{PATHS[run.noun]}/run", {**run.query, "run": run.name})


@contextmanager
def _refusing(noun: str, query: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except BadBulk as bad:
        raise Refused(str(bad), _back(noun, query)) from bad


def _back(noun: str, query: Mapping[str, str]) -> str:
    return make_url("", PATHS[noun], query).unescape()


BULK_ACTIONS = tuple(
    Action(f"{PATHS[noun]}/{name}{path}", right, partial(action, name))
    for noun, change in (("job", change_jobs), ("lane", change_lanes))
    for name, right in RIGHTS[noun].items()
    for path, action in (("", change), ("/stop", partial(stop, noun)))
)
