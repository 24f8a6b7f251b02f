"""Actions of the admin on the selected jobs and lanes.

An action asks first, as Django's own "delete" does. Then it calls the queue for each row, and says
how many changed and how many did not. It needs the permission to change the model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.template.response import TemplateResponse

from inturn.app import App
from inturn.errors import InturnError

AT_MOST = 500  # rows of one action: Django refuses a form with more than 1,000 fields


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of an action on a row. `call` returns False or None if there was nothing to do."""

    name: str
    title: str  # "Cancel the selected jobs"
    done: str  # "were cancelled"
    warning: str  # on the confirmation page
    call: Callable[[App, Any, str], object]  # with the app, the row's key, and the user's name


def make_actions(*changes: Change) -> list[Any]:
    """Return the actions of a ModelAdmin with `has_operate_permission`."""
    return [_make_action(change) for change in changes]


def _make_action(change: Change) -> Any:
    @admin.action(description=change.title, permissions=["operate"])
    def act(page: Any, request: Any, queryset: "QuerySet[Any]") -> TemplateResponse | None:
        rows = list(queryset[: AT_MOST + 1])
        if len(rows) > AT_MOST:
            text = f"Select at most {AT_MOST} rows. For more, use manage.py queue."
            page.message_user(request, text, messages.ERROR)
            return None
        if request.POST.get("confirmed"):
            _apply(change, page, request, rows)
            return None
        return _ask(change, page, request, rows)

    act.__name__ = change.name
    return act


def _apply(change: Change, page: Any, request: Any, rows: list[Any]) -> None:
    from inturn.django import app

    changed = []
    rest, level = "had changed meanwhile, or there was nothing to do.", messages.WARNING
    for row in rows:
        try:
            is_done = change.call(app, row.pk, request.user.get_username()) not in (False, None)
        except InturnError as error:
            rest, level = f"were not changed: {error}", messages.ERROR
            break
        if is_done:
            page.log_change(request, row, change.title)
            changed.append(row)
    if changed:
        page.message_user(request, f"{len(changed)} {change.done}.", messages.SUCCESS)
    if len(changed) < len(rows):
        page.message_user(request, f"{len(rows) - len(changed)} {rest}", level)


def _ask(change: Change, page: Any, request: Any, rows: list[Any]) -> TemplateResponse:
    return TemplateResponse(
        request,
        "admin/inturn/confirm_action.html",
        {
            **page.admin_site.each_context(request),
            "title": change.title,
            "warning": change.warning,
            "rows": rows,
            "opts": page.model._meta,
            "action": change.name,
            "checkbox": ACTION_CHECKBOX_NAME,
            "media": page.media,
        },
    )


def _retry(app: App, job_id: int, user: str) -> object:
    return app.job_manager.retry_job_by_id(job_id, by=user)


def _close_batch(app: App, batch: int, user: str) -> object:
    found = app.batches.show(batch)
    return found is not None and found.state == "open" and app.batches.close(batch, by=user)


def _cancel_batch(app: App, batch: int, user: str) -> object:
    found = app.batches.show(batch)
    if found is None or found.state == "ended":
        return False
    app.batches.cancel(batch, by=user)
    return True


CANCEL = Change(
    "cancel_jobs",
    "Cancel the selected jobs",
    "cancelled",
    "Waiting jobs will never run. Running jobs continue.",
    lambda app, job_id, user: app.job_manager.cancel_job_by_id(job_id, by=user),
)
ABORT = Change(
    "abort_jobs",
    "Abort the selected jobs",
    "cancelled or asked to end",
    "Waiting jobs will never run. The workers of running jobs are asked to abort them.",
    lambda app, job_id, user: app.job_manager.cancel_job_by_id(job_id, abort=True, by=user),
)
RUN_NOW = Change(
    "run_jobs_now",
    "Run the selected scheduled jobs now",
    "made ready to run",
    "Jobs that wait for a time or a retry become ready now.",
    _retry,
)
RETRY = Change(
    "retry_jobs",
    "Retry the selected jobs",
    "put back into the queue",
    "Each job runs again, at its old place in its lane, even if it has succeeded.",
    _retry,
)
PAUSE = Change(
    "pause_lanes",
    "Pause the selected lanes",
    "paused",
    "No more jobs of these lanes start until you resume them.",
    lambda app, lock, user: app.lanes.pause(lock, by=user),
)
RESUME = Change(
    "resume_lanes",
    "Resume the selected lanes, without the jobs that halted them",
    "resumed",
    "The lanes continue. A job that halted its lane stays failed.",
    lambda app, lock, user: app.lanes.resume(lock, by=user),
)
RETRY_HEAD = Change(
    "retry_heads",
    "Retry the job that stops each selected lane",
    "retried",
    "The failed job of each halted lane runs again, and then the lane continues.",
    lambda app, lock, user: app.lanes.retry_head(lock, by=user),
)
CLOSE_BATCH = Change(
    "close_batches",
    "Close the selected batches",
    "closed",
    "A batch that is closed ends when no job of it is left, and then its callback runs.",
    _close_batch,
)
CANCEL_BATCH = Change(
    "cancel_batches",
    "Cancel the selected batches",
    "cancelled",
    "Their callbacks and waiting jobs will never run. Running jobs continue.",
    _cancel_batch,
)
