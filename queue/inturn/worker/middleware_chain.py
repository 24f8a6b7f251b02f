"""The middleware around the jobs of one worker."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from inturn.tasks.context import JobContext
from inturn.tasks.middleware import RunningWorker, TaskMiddleware, WorkerMiddleware, is_async
from inturn.tasks.task import Task


class MiddlewareChain:
    """The middleware that one worker puts around its jobs, outermost first."""

    def __init__(
        self,
        worker: RunningWorker,
        task_middleware: Sequence[TaskMiddleware] | None,
        worker_middleware: Sequence[WorkerMiddleware] | None,
    ) -> None:
        self._worker = worker
        self._around_tasks = {
            kind: [each for each in task_middleware or () if is_async(each) is kind]
            for kind in (False, True)
        }
        self._around_jobs = list(worker_middleware or ())
        self.is_empty = not (task_middleware or worker_middleware)

    async def call(
        self,
        task: Task[..., Any],
        begin: Callable[..., Any],
        context: JobContext,
        run: Callable[[Callable[..., Any]], Awaitable[Any]],
    ) -> Any:
        """Call the task inside the chain, by `begin`.

        `run` calls a function the way the task's own would be called: with the job's arguments, and
        in a thread if the task is sync.
        """
        layers = [*self._around_tasks[task.is_async], *task.task_middleware]

        def function(*args: Any, **kwargs: Any) -> Any:
            return self._nest(layers, partial(begin, *args, **kwargs), context)()

        return await self._nest(self._around_jobs, partial(run, function), context)()

    def _nest(
        self, layers: Sequence[Callable[..., Any]], core: Callable[[], Any], context: JobContext
    ) -> Callable[[], Any]:
        for layer in reversed(layers):
            core = partial(layer, core, context, self._worker)
        return core
