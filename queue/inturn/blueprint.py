"""A collection of tasks, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, Literal, overload

from inturn import arguments
from inturn.context import JobContext
from inturn.errors import AppNotOpen, TaskDefinitionError, TaskNotFound
from inturn.model import NewJob
from inturn.tasks import OnFailureName, OnRetryName, Options, P, R, Retry, Task

NO_APP = "These tasks belong to no App, which alone has a database to enqueue them in. Declare them with @app.task."


def default_name(func: Callable[..., Any]) -> str:
    """`module.function`; of a program run as a script, the name under which a worker will import it."""
    module = func.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec else Path(getattr(main, "__file__", module)).stem
    return f"{module}.{func.__qualname__}"


class Blueprint:
    """A collection of tasks. An `App` is one that can also enqueue them."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task[..., Any]] = {}

    @overload
    def task(self, _func: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        *,
        pass_context: Literal[True],
        name: str | None = None,
        aliases: Sequence[str] = (),
        retry: Retry = False,
        queue: str = "default",
        priority: int = 0,
        lock: str | None = None,
        on_retry: OnRetryName = "hold",
        on_failure: OnFailureName = "continue",
    ) -> Callable[[Callable[Concatenate[JobContext, P], R]], Task[P, R]]: ...
    @overload
    def task(
        self,
        *,
        pass_context: Literal[False] = False,
        name: str | None = None,
        aliases: Sequence[str] = (),
        retry: Retry = False,
        queue: str = "default",
        priority: int = 0,
        lock: str | None = None,
        on_retry: OnRetryName = "hold",
        on_failure: OnFailureName = "continue",
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    def task(
        self,
        _func: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        aliases: Sequence[str] = (),
        retry: Retry = False,
        pass_context: bool = False,
        queue: str = "default",
        priority: int = 0,
        lock: str | None = None,
        on_retry: OnRetryName = "hold",
        on_failure: OnFailureName = "continue",
    ) -> Any:
        """Make a function a task. Its name is `module.function` unless given; workers find it by that name.

        on_retry: while a job waits for its next attempt its lane waits too ("hold"), or goes on ("release").
        on_failure: when it has failed for good its lane goes on ("continue"), or stops until a person acts ("halt").
        """
        options = Options().changed(queue=queue, priority=priority, lock=lock, on_retry=on_retry, on_failure=on_failure)

        def declare(func: Callable[..., Any]) -> Task[..., Any]:
            task: Task[..., Any] = Task(
                self,
                func,
                name=arguments.check_task_name(name or default_name(func)),
                aliases=[arguments.check_task_name(alias) for alias in aliases],
                retry=retry,
                pass_context=pass_context,
                options=options,
            )
            self._register(task)
            return task

        return declare if _func is None else declare(_func)

    def find_task(self, name: str) -> Task[..., Any]:
        try:
            return self.tasks[name]
        except KeyError:
            raise TaskNotFound(
                f"No task is named {name!r} here. Import the module that declares it, or keep its old name in aliases=[…]."
            ) from None

    def enqueue(self, jobs: Sequence[NewJob], connection: object = None) -> list[int]:
        raise AppNotOpen(NO_APP)

    async def enqueue_async(self, jobs: Sequence[NewJob], connection: object = None) -> list[int]:
        raise AppNotOpen(NO_APP)

    def _register(self, task: Task[..., Any]) -> None:
        for name in (task.name, *task.aliases):
            if name in self.tasks:
                raise TaskDefinitionError(f"Two tasks are named {name!r}. Give one of them another name=.")
            self.tasks[name] = task
