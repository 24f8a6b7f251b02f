"""Middleware: functions that run around tasks, for example to measure, to log or to open a session.

    async def timed(call_next, context, worker):
        begin = time.monotonic()
        try:
            return await call_next()
        finally:
            print(context.job.task_name, time.monotonic() - begin)

    app.run_worker(worker_middleware=[timed], wait=False)

Each one calls `call_next()` once and returns its result. If it raises, the attempt fails.

A *task* middleware runs around tasks of its own kind: `def` around `def`, in the task's thread, and
`async def` around `async def`. A *worker* middleware is always `async def` and runs around every
job. The first in a list is the outermost. A worker's middleware runs around a task's.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from inturn.errors import MiddlewareKindMismatch, TaskDefinitionError
from inturn.tasks.context import JobContext

if TYPE_CHECKING:
    from inturn.tasks.task import Task


class RunningWorker(Protocol):
    """The worker that runs the job, as middleware sees it.

    async def stop_after_one(call_next, context, worker):
        worker.stop("one job is enough")
        return await call_next()

    app.run_worker(worker_middleware=[stop_after_one], wait=False)
    """

    def stop(self, reason: str = "stop") -> None:
        """Claim no more jobs, and end when the running ones have ended."""

    def abort(self, reason: str = "abort") -> None:
        """End now. Unfinished jobs go back to the head of their lanes."""


TaskMiddleware = Callable[[Callable[[], Any], JobContext, RunningWorker], Any]
WorkerMiddleware = Callable[
    [Callable[[], Awaitable[Any]], JobContext, RunningWorker], Awaitable[Any]
]


class Around:
    """What one worker was given to stand around the tasks that it runs."""

    def __init__(
        self,
        worker: RunningWorker,
        task_middleware: Sequence[TaskMiddleware] | None,
        worker_middleware: Sequence[WorkerMiddleware] | None,
    ) -> None:
        self._worker = worker
        self._for_tasks = {
            kind: [each for each in task_middleware or () if is_async(each) is kind]
            for kind in (False, True)
        }
        self._for_jobs = list(worker_middleware or ())
        self.is_something = bool(task_middleware or worker_middleware)

    async def call(
        self,
        task: Task[..., Any],
        context: JobContext,
        run: Callable[[Callable[..., Any]], Awaitable[Any]],
    ) -> Any:
        """`run` calls the function that it is given as the task's own would be: with its arguments, in a thread or not."""
        layers = [*self._for_tasks[task.is_async], *task.task_middleware]

        def function(*args: Any, **kwargs: Any) -> Any:
            return self._nested(layers, partial(task.func, *args, **kwargs), context)()

        return await self._nested(self._for_jobs, partial(run, function), context)()

    def _nested(
        self, layers: Sequence[Callable[..., Any]], core: Callable[[], Any], context: JobContext
    ) -> Callable[[], Any]:
        for layer in reversed(layers):
            core = partial(layer, core, context, self._worker)
        return core


def is_async(function: Callable[..., Any]) -> bool:
    """Return True for an `async def` function or an object with an `async def __call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )


def check_task_middleware(
    task: str, layers: Sequence[TaskMiddleware] | None, *, is_async_task: bool
) -> tuple[TaskMiddleware, ...]:
    for layer in layers or ():
        _check_callable(f"task_middleware of task {task}", layer)
        if is_async(layer) is not is_async_task:
            kind = "async def" if is_async_task else "def"
            raise MiddlewareKindMismatch(
                f"{_name(layer)} cannot wrap task {task}, which is `{kind}`. Make it `{kind}` too."
            )
    return tuple(layers or ())


def check_worker_middleware(
    task_middleware: Sequence[TaskMiddleware] | None,
    worker_middleware: Sequence[WorkerMiddleware] | None,
) -> None:
    for layer in task_middleware or ():
        _check_callable("task_middleware", layer)
    for worker_layer in worker_middleware or ():
        _check_callable("worker_middleware", worker_layer)
        if not is_async(worker_layer):
            raise MiddlewareKindMismatch(
                f"worker_middleware: {_name(worker_layer)} is not `async def`, but it runs in the "
                "event loop. Make it `async def`, or give it as task_middleware."
            )


def _check_callable(where: str, layer: object) -> None:
    if not callable(layer):
        raise TaskDefinitionError(
            f"{where}: {layer!r} cannot be called. "
            "Give a list of functions (call_next, context, worker)."
        )


def _name(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
