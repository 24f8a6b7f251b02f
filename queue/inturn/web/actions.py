"""Actions of people. Each calls the same operation as the command line.

A form posts to the path of an action, which redirects to a page of the dashboard. The form cannot
set the target, so there is no open redirect.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import psycopg
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inturn.app import App
from inturn.database import drive
from inturn.errors import BadArgument, DatabaseUnavailable, InturnError
from inturn.formatting import visible
from inturn.operations import Operation
from inturn.operations.changes import jobs, lanes
from inturn.web.access import Access
from inturn.web.gate import LONGEST_BODY
from inturn.web.rendering import make_url
from inturn.whole_numbers import read_id

T = TypeVar("T")
Form = Mapping[str, str]
logger = logging.getLogger(__name__)
TERMS = "SET statement_timeout = '10s'"
NOBODY = "dashboard"  # in the audit, if `authorize` returns no name
LONGEST_REASON = 500
MOST_FIELDS = 100
LONGEST_PAUSE = 366 * 24  # hours
# The request's fields that name its target, for its span.
TARGETS = {"lock": "lock", "name": "name", "pattern": "limit", "id": "batch", "q": "filter"}


class Refused(Exception):
    """The text gives the reason, and `back` is the page to return to, by default the action's."""

    title = "Nothing was changed"

    def __init__(self, reason: str, back: str = "") -> None:
        super().__init__(reason)
        self.back = back


class Done(NamedTuple):
    """The result, as a key of `results`, and the page that shows it."""

    result: str
    path: str
    query: Mapping[str, str] = {}
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One request for a change. `by` is the name for the audit."""

    request: Request
    form: Form
    by: str
    connection: psycopg.Connection[Any]
    schema: str

    def run(self, operation: Operation[T]) -> T:
        """Run an operation and commit it."""
        return drive.run(operation, self.connection, self.schema)


@dataclass(frozen=True, slots=True)
class Action:
    """A path to post to, the permission it needs, and its function.

    `back` is the page to return to if it is refused, by default that of its lane or job.
    """

    path: str
    permission: str
    change: Callable[[Change], Done]
    back: str | None = None


async def read_form(request: Request) -> Form:
    """Return the fields of a form. The gate has already checked its type and length."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            return {}
    try:
        text = body.decode(errors="replace")
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:  # there are more
        return {}
    return {name: value.replace("\0", "") for name, value in fields}


def run_action(action: Action, app: App, request: Request, access: Access, form: Form) -> Response:
    """Run an action, log it, and redirect to the page that shows it."""
    by = access.name or NOBODY
    with _trace(action, app, request, by, form) as note:
        done = _attempt(action, app, request, by, form)
        note("refused" if isinstance(done, Refused) else done.result)
    if isinstance(done, Refused):
        raise done
    logger.info(
        "dashboard.changed: %s by %s: %s %s",
        action.path,
        visible(by),
        done.result,
        visible(str(dict(request.query_params) or request.path_params)),
    )
    query = {**done.query, "done": done.result, "n": done.number}
    target = make_url(request.scope.get("root_path", ""), done.path, query).unescape()
    return RedirectResponse(target, 303)


def _attempt(action: Action, app: App, request: Request, by: str, form: Form) -> Done | Refused:
    connector = app.connector
    try:
        with drive.translate_errors(), closing(connector.connect("web")) as connection:
            connection.execute(TERMS)
            return action.change(Change(request, form, by, connection, connector.schema))
    except InturnError as error:
        refused = Refused(str(error))
        if isinstance(error, DatabaseUnavailable) and error.outcome_unknown:
            refused.title = "Unknown whether this was done"
        refused.__cause__ = error
    except Refused as raised:
        refused = raised
    refused.back = refused.back or action.back or find_back(request)
    return refused


def _trace(
    action: Action, app: App, request: Request, by: str, form: Form
) -> AbstractContextManager[Callable[[str], object]]:
    """Return a span for the action: its path in words, the person and the target."""
    if app.tracing is None:
        return nullcontext(lambda _: None)
    fields = {**form, **request.query_params}
    of = {TARGETS[name]: value for name, value in fields.items() if name in TARGETS}
    if "job_id" in request.path_params:
        of["job"] = request.path_params["job_id"]
    words = [word for word in action.path.split("/") if word and not word.startswith("{")]
    return app.tracing.change(" ".join(words), by, of)


def find_back(request: Request) -> str:
    """Return the page that an action belongs to."""
    lock, job_id = request.query_params.get("lock"), request.path_params.get("job_id")
    if job_id is not None:
        return f"/jobs/{job_id}"
    return str(make_url("", "/lane", {"lock": lock})) if lock else "/"


def pause_lane(change: Change) -> Done:
    """Pause a lane, for some hours or until it is resumed."""
    lock = require(change, "lock")
    pause = lanes.pause_lane(lock, get_reason(change), None, change.by, get_length(change))
    if not change.run(pause):
        raise Refused("This lane is halted, so nothing starts in it anyway.")
    return _show_lane(lock, "paused")


def resume_lane(change: Change) -> Done:
    lock = require(change, "lock")
    if not change.run(lanes.resume_lane(lock, change.by)):
        raise Refused("This lane is neither paused nor halted.")
    return _show_lane(lock, "resumed")


def retry_head(change: Change) -> Done:
    """Retry the job that a lane waits for now."""
    lock = require(change, "lock")
    job_id = change.run(lanes.retry_head(lock, change.by))
    if job_id is None:
        raise Refused("This lane does not wait for a retry.")
    return _show_lane(lock, "head-retried", job_id)


def skip_head(change: Change) -> Done:
    """Skip the job that a lane waits for, if it is still the one that the person saw."""
    lock = require(change, "lock")
    with change.connection.transaction():
        job_id = change.run(lanes.skip_head(lock, change.by))
        if job_id is None:
            raise Refused("This lane has no waiting jobs.")
        if str(job_id) != change.form.get("head"):
            raise Refused("Another job is now the head of this lane. Check it again.")
    return _show_lane(lock, "head-skipped", job_id)


def cancel_waiting(change: Change) -> Done:
    """Cancel all waiting jobs of a lane, if the person has typed its name."""
    lock = require(change, "lock")
    if change.form.get("confirm", "") != visible(lock):
        raise Refused("The name you typed is not the lane's.")
    return _show_lane(lock, "waiting-cancelled", change.run(lanes.cancel_waiting(lock, change.by)))


def retry_job(change: Change) -> Done:
    """Run an ended job again, or a scheduled one now."""
    job_id = _get_job_id(change)
    if not change.run(jobs.retry_job(job_id, change.by)):
        raise Refused("This job is already waiting or running.")
    return Done("job-retried", f"/jobs/{job_id}", number=job_id)


def delete_job(change: Change) -> Done:
    job_id = _get_job_id(change)
    if not change.run(jobs.delete_job(job_id, change.by)):
        raise Refused("This job is running or already gone.")
    return Done("job-deleted", "/", number=job_id)


def cancel_job(change: Change, *, abort: bool) -> Done:
    """Cancel a job that has not started or, with `abort`, ask its worker to abort it."""
    job_id = _get_job_id(change)
    status = change.run(jobs.cancel_job(job_id, abort, change.by))
    if status == "doing" and not abort:
        raise Refused("A worker has already claimed this job. You can ask it to abort it.")
    if status not in ("cancelled", "doing"):
        raise Refused("This job has already ended or is gone.")
    word = "job-aborting" if status == "doing" else "job-cancelled"
    return Done(word, f"/jobs/{job_id}", number=job_id)


def _show_lane(lock: str, result: str, number: int | None = None) -> Done:
    return Done(result, "/lane", {"lock": lock}, number)


def get_target(change: Change, name: str) -> str:
    """Return a value of the address, without NUL, which PostgreSQL refuses."""
    return change.request.query_params.get(name, "").replace("\0", "")


def require(change: Change, name: str) -> str:
    """Return a value of the address, or raise BadArgument."""
    value = get_target(change, name)
    if not value:
        raise BadArgument(name, "is missing")
    return value


def get_reason(change: Change) -> str | None:
    """Return why the person pauses something, if given."""
    return change.form.get("reason", "").strip()[:LONGEST_REASON] or None


def _get_job_id(change: Change) -> int:
    job_id = read_id(change.request.path_params["job_id"])
    if job_id is None:
        raise BadArgument("job", "has no such number")
    return job_id


def get_length(change: Change) -> timedelta | None:
    """Return how long to pause, or None until it is resumed."""
    hours = change.form.get("hours", "").strip()
    if not hours:
        return None
    try:
        length = float(hours)
    except ValueError:
        length = 0.0
    if not 0 < length <= LONGEST_PAUSE:
        raise BadArgument("hours", "is not a number of hours")
    return timedelta(hours=length)


ACTIONS = (
    Action("/lane/pause", "pause", pause_lane),
    Action("/lane/resume", "pause", resume_lane),
    Action("/lane/retry-head", "retry", retry_head),
    Action("/lane/skip-head", "cancel", skip_head),
    Action("/lane/cancel-waiting", "cancel", cancel_waiting),
    Action("/jobs/{job_id}/retry", "retry", retry_job),
    Action("/jobs/{job_id}/cancel", "cancel", partial(cancel_job, abort=False)),
    Action("/jobs/{job_id}/abort", "cancel", partial(cancel_job, abort=True)),
    Action("/jobs/{job_id}/delete", "delete", delete_job),
)
