"""Middleware: functions that run around tasks, to measure, to log, or to open a session.

    async def timed(call_next, context, worker):
        begin = time.monotonic()
        try:
            return await call_next()
        finally:
            print(context.job.task_name, time.monotonic() - begin)

    app.run_worker(worker_middleware=[timed], wait=False)

Each calls `call_next()` once and returns its result. If it raises, the attempt fails.

A *task* middleware is of the same kind as its task: `def` around `def`, in the task's thread, or
`async def` around `async def`. A *worker* middleware is always `async def` and runs around every
job.

The first in a list is the outermost. A worker's middleware runs around a task's.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from inturn.errors import MiddlewareKindMismatch, TaskDefinitionError
from inturn.tasks.context import JobContext


class RunningWorker(Protocol):
    """The worker that runs the job, as middleware sees it.

    async def fragile(call_next, context, worker):
        try:
            return await call_next()
        except MemoryError:
            worker.stop("out of memory")
            raise

    app.run_worker(worker_middleware=[fragile], wait=False)
    """

    def stop(self, reason: str = "stop") -> None:
        """Claim no more jobs, and end when the running ones have ended."""

    def abort(self, reason: str = "abort") -> None:
        """End now. Unfinished jobs go back to the heads of their lanes."""


TaskMiddleware = Callable[[Callable[[], Any], JobContext, RunningWorker], Any]
WorkerMiddleware = Callable[
    [Callable[[], Awaitable[Any]], JobContext, RunningWorker], Awaitable[Any]
]


def is_async(function: Callable[..., Any]) -> bool:
    """Return True for an `async def`, an `async def __call__`, or a partial of one."""
    while isinstance(function, partial):
        function = function.func
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def check_task_middleware(
    task: str, layers: Sequence[TaskMiddleware] | None, *, is_async_task: bool
) -> tuple[TaskMiddleware, ...]:
    """Return a task's middleware as a tuple. Raise if any cannot run around this task."""
    layers = tuple(layers or ())
    for layer in layers:
        _check_callable(f"task_middleware of task {task}", layer)
        if is_async(layer) is not is_async_task:
            kind = "async def" if is_async_task else "def"
            raise MiddlewareKindMismatch(
                f"{_name(layer)} cannot wrap task {task}, which is `{kind}`. Make it `{kind}` too."
            )
    return layers


def check_worker_middleware(
    task_middleware: Sequence[TaskMiddleware] | None,
    worker_middleware: Sequence[WorkerMiddleware] | None,
) -> None:
    """Raise if a worker's middleware cannot be called, or is of the wrong kind."""
    for layer in task_middleware or ():
        _check_callable("task_middleware", layer)
    for worker_layer in worker_middleware or ():
        _check_callable("worker_middleware", worker_layer)
        if not is_async(worker_layer):
            raise MiddlewareKindMismatch(
                f"worker_middleware: {_name(worker_layer)} is not `async def`, but it runs in the "
                "event loop. Make it `async def`, or pass it as task_middleware."
            )


def _check_callable(where: str, layer: object) -> None:
    if not callable(layer):
        raise TaskDefinitionError(
            f"{where}: {layer!r} is not callable. Pass a list of functions (call_next, context, "
            "worker)."
        )


def _name(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
