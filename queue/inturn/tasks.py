"""Tasks: a name for a function, and how a call of it becomes a job."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

from inturn import arguments
from inturn.context import JobContext
from inturn.errors import AppNotOpen, BadArgument, TaskDefinitionError, TaskNotFound
from inturn.model import NewJob, OnFailure, OnRetry
from inturn.resources import OnBusyName, Resource, declared
from inturn.retry import BaseRetryStrategy, strategy

P = ParamSpec("P")
R = TypeVar("R")
Retry = bool | int | BaseRetryStrategy
OnRetryName = Literal["hold", "release"]
OnFailureName = Literal["continue", "halt"]

NO_APP = "These tasks belong to no App, which alone has a database to enqueue them in. Declare them with @app.task."


@dataclass(frozen=True, slots=True)
class Options:
    """How a job is to run; a task's are the defaults of its jobs'."""

    queue: str = "default"
    priority: int = 0
    lock: str | None = None
    schedule_at: datetime | None = None
    schedule_in: timedelta | None = None
    on_retry: OnRetry = OnRetry.HOLD
    on_failure: OnFailure = OnFailure.CONTINUE

    def changed(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        lock: str | None = None,
        schedule_at: datetime | None = None,
        schedule_in: timedelta | Mapping[str, float] | None = None,
        on_retry: str | None = None,
        on_failure: str | None = None,
    ) -> Options:
        at, delay = arguments.check_times(schedule_at, schedule_in)
        return replace(
            self,
            queue=self.queue if queue is None else arguments.check_queue(queue),
            priority=self.priority if priority is None else arguments.check_priority(priority),
            lock=self.lock if lock is None else arguments.check_lock(lock),
            schedule_at=at,
            schedule_in=delay,
            on_retry=self.on_retry if on_retry is None else arguments.check_choice("on_retry", OnRetry, on_retry),
            on_failure=self.on_failure
            if on_failure is None
            else arguments.check_choice("on_failure", OnFailure, on_failure),
        )


class Deferrer(Generic[P]):
    """Defers jobs of one task name with fixed options. `task` is None for a task that lives in another program."""

    def __init__(
        self,
        owner: Blueprint,
        name: str,
        task: Task[P, Any] | None,
        options: Options,
        task_kwargs: Mapping[str, Any] | None = None,
        connection: object = None,
    ) -> None:
        self._owner = owner
        self._name = name
        self._task = task
        self._options = options
        self._kwargs = dict(task_kwargs or {})
        self._connection = connection

    def defer(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Enqueue one job and return its id."""
        return self._owner.enqueue([self._job(args, kwargs)], self._connection)[0]

    async def defer_async(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Enqueue one job and return its id."""
        return (await self._owner.enqueue_async([self._job(args, kwargs)], self._connection))[0]

    def batch_defer(self, *task_kwargs: Mapping[str, Any]) -> list[int]:
        """Enqueue a job for each mapping of arguments, in this order, all or none."""
        return self._owner.enqueue(self._jobs(task_kwargs), self._connection)

    async def batch_defer_async(self, *task_kwargs: Mapping[str, Any]) -> list[int]:
        """Enqueue a job for each mapping of arguments, in this order, all or none."""
        return await self._owner.enqueue_async(self._jobs(task_kwargs), self._connection)

    def _jobs(self, task_kwargs: Sequence[Mapping[str, Any]]) -> list[NewJob]:
        jobs = []
        for index, kwargs in enumerate(task_kwargs):
            try:
                jobs.append(self._job((), kwargs))
            except BadArgument as error:
                raise BadArgument(
                    f"job {index}, {error.argument}", str(error).removeprefix(f"{error.argument}: ")
                ) from None
        return jobs

    def _job(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        given = {**self._kwargs, **kwargs}
        if self._task is not None and (args or given.keys() != self._task.names):  # most give all, by name
            given = arguments.bind(self._name, self._task.signature, args, given)
        elif args:
            raise BadArgument(f"task {self._name}", "is not known here, so its arguments must be given by name")
        o = self._options
        return NewJob(
            task_name=self._name,
            args=arguments.encode(given),
            queue=o.queue,
            priority=o.priority,
            lock=o.lock,
            schedule_at=o.schedule_at,
            schedule_in=o.schedule_in,
            on_retry=o.on_retry,
            on_failure=o.on_failure,
        )


class Task(Deferrer[P], Generic[P, R]):
    """A function that can be deferred. Calling it runs it here and now."""

    def __init__(
        self,
        owner: Blueprint,
        func: Callable[..., R],
        *,
        name: str,
        aliases: Sequence[str],
        retry: Retry,
        pass_context: bool,
        options: Options,
        resources: Sequence[Resource] = (),
        on_busy: str = "snooze",
        busy_seconds: float | None = None,
    ) -> None:
        super().__init__(owner, name, self, options)
        parameters = list(inspect.signature(func).parameters.values())
        if pass_context and not parameters:
            raise TaskDefinitionError(
                f"Task {name} has pass_context=True but takes no argument to receive the context."
            )
        self.func = func
        self.name = name
        self.aliases = tuple(aliases)
        self.retry_strategy = strategy(retry)
        self.pass_context = pass_context
        self.is_async = inspect.iscoroutinefunction(func)
        self.signature = inspect.Signature(parameters[1:] if pass_context else parameters)
        arguments.check_signature(name, self.signature)
        self.names = arguments.names(self.signature)
        self.resources = declared(name, self.signature, resources, on_busy, busy_seconds)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def configure(
        self,
        *,
        lock: str | None = None,
        task_kwargs: Mapping[str, Any] | None = None,
        schedule_at: datetime | None = None,
        schedule_in: timedelta | Mapping[str, float] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        on_retry: OnRetryName | None = None,
        on_failure: OnFailureName | None = None,
        connection: object = None,
    ) -> Deferrer[P]:
        """Options for the jobs deferred through what it returns; what is not given stays the task's own.

        `connection` is a psycopg or SQLAlchemy connection or session of yours: the job then exists if and only if you commit.
        """
        options = self._options.changed(
            queue=queue,
            priority=priority,
            lock=lock,
            schedule_at=schedule_at,
            schedule_in=schedule_in,
            on_retry=on_retry,
            on_failure=on_failure,
        )
        return Deferrer(self._owner, self.name, self, options, task_kwargs, connection)


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
        resources: Sequence[Resource] = (),
        on_busy: OnBusyName = "snooze",
        busy_seconds: float | None = None,
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
        resources: Sequence[Resource] = (),
        on_busy: OnBusyName = "snooze",
        busy_seconds: float | None = None,
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
        resources: Sequence[Resource] = (),
        on_busy: OnBusyName = "snooze",
        busy_seconds: float | None = None,
    ) -> Any:
        """Make a function a task. Its name is `module.function` unless given; workers find it by that name.

        on_retry: while a job waits for its next attempt its lane waits too ("hold"), or goes on ("release").
        on_failure: when it has failed for good its lane goes on ("continue"), or stops until a person acts ("halt").
        resources: locks to hold while it runs, as addresses ("redis://cache/0#printer:{printer}", with arguments of the task in
        the name) or as functions that make an async lock of the arguments. on_busy: while somebody else has one, the job goes
        back uncharged for `busy_seconds` and keeps its place ("snooze"), waits so long in its slot ("wait"), ends as cancelled
        ("skip"), fails ("fail"), or runs without ("proceed"); see docs/locks.md.
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
                resources=resources,
                on_busy=on_busy,
                busy_seconds=busy_seconds,
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
