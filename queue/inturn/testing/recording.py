"""What tasks return and raise, which the database knows as text at best, caught on its way through the real worker.

The worker is given the app's tasks in a cover that passes the call on. It is told which job it runs by the context that any
task may ask for; the task below gets one only if it did.
"""

import copy
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from inturn import Blueprint
from inturn.errors import TaskNotFound
from inturn.model import Job
from inturn.tasks.context import JobContext
from inturn.tasks.task import Task


class Run(NamedTuple):
    """One attempt at a job in this process, and what came of it: a value, or an error.

    report.defer(day=1)
    [run] = queue.drain()
    assert run.value == 42 and run.error is None
    """

    job: Job
    started: int  # ns, of the machine's monotonic clock
    ended: int
    value: Any = None
    error: BaseException | None = None


class Recorder(Blueprint):
    """The tasks of an app; `note` is called at the end of each run, in the thread of the run."""

    def __init__(self, app: Blueprint, note: Callable[[Run], object]) -> None:
        super().__init__()
        self.tasks = app.tasks
        self.unknown: TaskNotFound | None = None
        self._app = app
        self._note = note
        self._covered: dict[str, Task[..., Any]] = {}

    def find_task(self, name: str) -> Task[..., Any]:
        try:
            task = self._app.find_task(name)
        except TaskNotFound as error:
            self.unknown = error
            raise
        if name not in self._covered:
            self._covered[name] = cover = copy.copy(task)
            cover.func = self._async(task) if task.is_async else self._sync(task)
            cover.pass_context = True
        return self._covered[name]

    def _sync(self, task: Task[..., Any]) -> Callable[..., Any]:
        def run(context: JobContext, /, **kwargs: Any) -> Any:
            begun = _Begun(self._note, context.job)
            try:
                return begun.returned(task.func(*self._first(context, task), **kwargs))
            except BaseException as error:
                begun.raised(error)
                raise

        return run

    def _async(self, task: Task[..., Any]) -> Callable[..., Any]:
        async def run(context: JobContext, /, **kwargs: Any) -> Any:
            begun = _Begun(self._note, context.job)
            try:
                return begun.returned(await task.func(*self._first(context, task), **kwargs))
            except BaseException as error:
                begun.raised(error)
                raise

        return run

    def _first(self, context: JobContext, task: Task[..., Any]) -> tuple[JobContext, ...]:
        context.app, context.task = self._app, task
        return (context,) if task.pass_context else ()


class _Begun:
    def __init__(self, note: Callable[[Run], object], job: Job) -> None:
        self._note = note
        self._job = job
        self._started = time.monotonic_ns()

    def returned(self, value: Any) -> Any:
        self._note(Run(self._job, self._started, time.monotonic_ns(), value))
        return value

    def raised(self, error: BaseException) -> None:
        self._note(Run(self._job, self._started, time.monotonic_ns(), None, error))
