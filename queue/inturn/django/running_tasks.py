"""Run the tasks of Django's framework as tasks of an app."""

import logging
from inspect import iscoroutinefunction
from traceback import format_exception
from typing import Any

from asgiref.sync import sync_to_async
from django.utils import timezone
from django.utils.module_loading import import_string

from inturn.app import App
from inturn.django.task_results import make_result, set_fields
from inturn.django.tasks_api import (
    InvalidTask,
    Task,
    TaskContext,
    TaskError,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from inturn.tasks.context import JobContext

logger = logging.getLogger(__name__)


class _Run:
    """A function of Django's framework, as the function of a task of ours."""

    def __init__(self, task: Any) -> None:
        self.task = task

    def run(self, context: JobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        started = self._start(context, args, kwargs)
        try:
            value = normalize_json(self.task.func(*self._context(started), *args, **kwargs))
        except Exception as error:
            self._fail(started, context, error)
            raise
        self._finish(started, TaskResultStatus.SUCCESSFUL, _return_value=value)
        return value

    async def run_async(self, context: JobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        # Receivers of signals may use the ORM, so they do not run in the event loop.
        started = await sync_to_async(self._start)(context, args, kwargs)
        try:
            value = normalize_json(await self.task.func(*self._context(started), *args, **kwargs))
        except Exception as error:
            await sync_to_async(self._fail)(started, context, error)
            raise
        await sync_to_async(self._finish)(started, TaskResultStatus.SUCCESSFUL, _return_value=value)
        return value

    def _context(self, result: Any) -> tuple[Any, ...]:
        return (TaskContext(task_result=result),) if self.task.takes_context else ()

    def _start(self, context: JobContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = make_result(
            self.task,
            job_id=context.job.id,
            args=args,
            kwargs=kwargs,
            backend=self.task.backend,
            status=TaskResultStatus.RUNNING,
            started_at=timezone.now(),
            worker_ids=[context.worker_name] * (context.job.attempts + 1),
        )
        task_started.send(type(self.task.get_backend()), task_result=result)
        return result

    def _fail(self, result: Any, context: JobContext, error: Exception) -> None:
        strategy = context.task.retry_strategy
        if strategy and strategy.get_retry_decision(exception=error, job=context.job):
            return  # it is not finished
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        text = "".join(format_exception(error))
        result.errors.append(TaskError(exception_class_path=path, traceback=text))
        self._finish(result, TaskResultStatus.FAILED)

    def _finish(self, result: Any, status: Any, **fields: Any) -> None:
        set_fields(result, status=status, finished_at=timezone.now(), **fields)
        task_finished.send(type(self.task.get_backend()), task_result=result)


def register(app: App, task: Any, retry: Any) -> None:
    """Add a task of Django's framework to the app, under its path, unless already added."""
    known = app.tasks.get(task.module_path)
    if known is None:
        run = _Run(task)
        function = run.run_async if iscoroutinefunction(task.func) else run.run
        app.task(name=task.module_path, pass_context=True, retry=retry)(function)
    elif not isinstance(getattr(known.func, "__self__", None), _Run):
        raise InvalidTask(
            f"{task.module_path} is a task of inturn's app already. Declare it once: with "
            "@app.task of inturn.django, or with @task of Django"
        )


def import_task(name: str) -> None:
    """Import a task of Django's framework by its path, which declares it to the app.

    Django's tasks may live in any module, and a worker imports only those named `tasks`.
    """
    try:
        found = import_string(name)
    except ImportError:
        return
    except Exception:
        logger.exception("task.not_imported: %s", name)
        return
    if not isinstance(found, Task):
        logger.warning("task.not_imported: %s is not a task", name)
