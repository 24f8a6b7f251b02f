"""Record what tasks return and raise while the real worker runs them.

The database stores errors only as text, so values and errors are caught in Python. The worker gets
the app's tasks in wrappers. A wrapper asks for the context, to know which job runs, and passes it
on only if the task asked for it.
"""

import copy
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from inturn import Blueprint
from inturn.errors import TaskNotFound
from inturn.model import Job
from inturn.tasks.context import JobContext
from inturn.tasks.task import Task


class Run(NamedTuple):
    """One attempt at a job in this process, with its value or its error.

    report.defer(day=1)
    [run] = queue.drain()
    assert run.value == 42 and run.error is None
    """

    job: Job
    started: int  # in ns, on the machine's monotonic clock
    ended: int
    value: Any = None
    error: BaseException | None = None


class Recorder(Blueprint):
    """The tasks of an app. `note` is called at the end of each run, in its thread."""

    def __init__(self, app: Blueprint, note: Callable[[Run], object]) -> None:
        super().__init__()
        self.tasks = app.tasks
        self.tracing = app.tracing
        self.unknown: TaskNotFound | None = None
        self._app = app
        self._note = note
        self._wrapped: dict[str, Task[..., Any]] = {}

    def find_task(self, name: str) -> Task[..., Any]:
        try:
            task = self._app.find_task(name)
        except TaskNotFound as error:
            self.unknown = error
            raise
        if name not in self._wrapped:
            self._wrapped[name] = wrapper = copy.copy(task)
            wrapper.func = self._async(task) if task.is_async else self._sync(task)
            wrapper.pass_context = True
        return self._wrapped[name]

    def _sync(self, task: Task[..., Any]) -> Callable[..., Any]:
        def run(context: JobContext, /, **kwargs: Any) -> Any:
            with _Watched(self._note, context.job) as watched:
                watched.value = task.func(*self._first(context, task), **kwargs)
            return watched.value

        return run

    def _async(self, task: Task[..., Any]) -> Callable[..., Any]:
        async def run(context: JobContext, /, **kwargs: Any) -> Any:
            with _Watched(self._note, context.job) as watched:
                watched.value = await task.func(*self._first(context, task), **kwargs)
            return watched.value

        return run

    def _first(self, context: JobContext, task: Task[..., Any]) -> tuple[JobContext, ...]:
        context.app, context.task = self._app, task
        return (context,) if task.pass_context else ()


class _Watched:
    value: Any = None

    def __init__(self, note: Callable[[Run], object], job: Job) -> None:
        self._note = note
        self._job = job

    def __enter__(self) -> Self:
        self._started = time.monotonic_ns()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._note(Run(self._job, self._started, time.monotonic_ns(), self.value, error))
