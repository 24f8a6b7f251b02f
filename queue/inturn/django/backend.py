"""The backend for the tasks of Django 6 (`django.tasks`) and of the package django-tasks.

`ship.using(lock=f"customer:{customer}").enqueue(order)` takes Django's options and `lock`,
`queueing_lock`, `on_conflict`, `on_retry`, `on_failure`, `timeout`, `expires_in`, `limit` and
`group`. OPTIONS in TASKS are defaults for all tasks of the backend, and take `retry` too.
`ship.make_new_job(order)` creates a job for `app.enqueue`.

    BACKEND = "inturn.django.backend.InturnBackend"
    TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": {"retry": 3}}}

Type checkers know this of an `InturnTask`: `cast(InturnTask, ship)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, Self, Unpack
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.utils import timezone

from inturn.app import App
from inturn.django.running_tasks import register
from inturn.django.task_results import make_result, read_result
from inturn.django.tasks_api import (
    BaseTaskBackend,
    Task,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
)
from inturn.errors import BadArgument, UnknownOption
from inturn.operations.changes.jobs import get_job
from inturn.tasks.options import CheckedOptions, NewJob, RunOptions
from inturn.tasks.task import Deferrer
from inturn.whole_numbers import read_id

_find_signature = cache(signature)
JOB_OPTIONS = ("lock", "expires_in", *RunOptions.__annotations__)
# How Celery, RQ, Dramatiq and we call it, and how Django does.
ELSEWHERE = {
    **dict.fromkeys(("delay", "delay_on_commit", "send", "defer"), "enqueue(…)"),
    **dict.fromkeys(("apply_async", "send_with_options", "configure"), "using(…).enqueue(…)"),
}
NO_APP = checks.Error(
    "inturn.django is not in INSTALLED_APPS, so the queue has no tables.",
    hint='Add "inturn.django" to INSTALLED_APPS and run manage.py migrate.',
    id="inturn.E001",
)


class UsingOptions(RunOptions, total=False):
    """What `using` takes: the options of jobs, and Django's own."""

    lock: str | int | UUID | None
    expires_in: timedelta | Mapping[str, float] | None
    priority: int | None
    queue_name: str | None
    run_after: datetime | None
    backend: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InturnTask(Task):
    """A task of Django's with options of inturn's jobs.

    ship.using(lock=f"customer:{customer}").enqueue(order)
    """

    lock: str | None = None
    queueing_lock: str | None = None
    on_conflict: str | None = None
    on_retry: str | None = None
    on_failure: str | None = None
    timeout: float | None = None
    expires_in: timedelta | Mapping[str, float] | None = None
    limit: str | None = None
    group: str | None = None

    def using(self, **changes: Unpack[UsingOptions]) -> Self:
        """Return the task with other options: those of Django, and those of this class."""
        if "retry" in changes:
            raise BadArgument("retry", "is an option of a backend. Set it in TASKS, in OPTIONS")
        for name in changes.keys() - UsingOptions.__annotations__.keys():
            raise UnknownOption(name, "a Django task", UsingOptions.__annotations__)
        given: dict[str, Any] = {name: to for name, to in changes.items() if to is not None}
        return replace(self, **given)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            advice = f". Use {ELSEWHERE[name]}" if name in ELSEWHERE else ""
            raise AttributeError(f"a task of Django has no {name!r}{advice}", name=name, obj=self)

    def make_new_job(self, *args: Any, **kwargs: Any) -> NewJob:
        """Create a job without enqueueing it: `app.job_manager.batch_defer_jobs` takes several."""
        job: NewJob = self.get_backend().make_new_job(self, args, kwargs)
        return job


class InturnBackend(BaseTaskBackend):
    """Enqueues tasks as jobs, through Django's connection: in its transaction, if there is one."""

    task_class = InturnTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.job_options = dict(self.options)
        self.retry = self.job_options.pop("retry", False)
        for name in self.job_options:
            if name not in JOB_OPTIONS:
                raise UnknownOption(name, f"TASKS[{alias!r}]['OPTIONS']", (*JOB_OPTIONS, "retry"))
        CheckedOptions().change(self.job_options)

    @property
    def app(self) -> App:
        from inturn.django import app

        return app

    def validate_task(self, task: Any) -> None:
        """Check a task, and let workers know it. Django calls this when a task is declared."""
        super().validate_task(task)
        register(self.app, task, self.retry)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue a job and return its result, which is still pending."""
        self.validate_task(task)
        given = _store(task, args, kwargs)
        job_id = self._configure(task).defer(**given)
        result = make_result(
            task,
            job_id=int(job_id),
            backend=self.alias,
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            **given,
        )
        task_enqueued.send(type(self), task_result=result)
        return result

    def make_new_job(self, task: Any, args: Any, kwargs: Any) -> NewJob:
        """Create a job of the task."""
        self.validate_task(task)
        return self._configure(task).make_new_job(**_store(task, args, kwargs))

    def get_result(self, result_id: str | int) -> Any:
        """Return the result of a job. Raise TaskResultDoesNotExist if the job is unknown."""
        id = read_id(str(result_id))
        job = None if id is None else self.app.connector.run(get_job(id))
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        return read_result(job, self.alias, self.job_options)

    def check(self, **_: Any) -> list[checks.CheckMessage]:
        return [] if apps.is_installed("inturn.django") else [NO_APP]

    def _configure(self, task: Any) -> Deferrer[..., Any]:
        own = {name: getattr(task, name, None) for name in JOB_OPTIONS}
        chosen = {name: value for name, value in own.items() if value is not None}
        run_after = task.run_after
        if run_after is not None and not settings.USE_TZ:
            run_after = timezone.make_aware(run_after)
        return self.app.configure_task(
            task.module_path,
            queue=task.queue_name,
            priority=task.priority,
            schedule_at=run_after,
            **{**self.job_options, **chosen},
        )


def _store(task: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of the job for those of the function.

    Raise TypeError if they do not fit, as calling the function would.
    """
    context = (None,) if task.takes_context else ()
    try:
        _find_signature(task.func).bind(*context, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.name}(): {error}") from None
    return {"args": normalize_json(list(args)), "kwargs": normalize_json(dict(kwargs))}
