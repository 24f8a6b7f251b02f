"""Collections of tasks."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Literal, Unpack, overload

from inturn import arguments
from inturn.errors import (
    TaskAlreadyRegistered,
    TaskDefinitionError,
    TaskNotFound,
    UnboundTaskError,
    UnknownOption,
)
from inturn.tasks.context import JobContext
from inturn.tasks.deferred import DeferredJob, T
from inturn.tasks.middleware import TaskMiddleware, check_task_middleware
from inturn.tasks.options import CheckedOptions, DefaultOptions, NewJob, R, show_options
from inturn.tasks.periodic import Periodics
from inturn.tasks.resources import OnBusyName, Resource
from inturn.tasks.retry import Retry
from inturn.tasks.task import P, Task
from inturn.tasks.tracer import Tracer
from inturn.values import JsonDumps

NO_APP = (
    "This task's blueprint was not added to an App, so there is no database to enqueue the job in. "
    "Add it with app.add_tasks_from(blueprint, namespace=…), or declare the task with @app.task."
)


def default_name(func: Callable[..., Any]) -> str:
    """Return `module.function`. A script gets the name under which a worker will import it."""
    module = func.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec else Path(getattr(main, "__file__", module)).stem
    return f"{module}.{func.__name__}"


class TaskOptions(DefaultOptions, total=False):
    """The options of a task, for your own decorators.

    P = ParamSpec("P")
    R = TypeVar("R")

    def nightly(**options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]:
        options["queue"] = "night"
        return app.task(**options)

    @nightly(retry=3)
    def tidy_up() -> None: ...
    """

    name: str | None
    aliases: Sequence[str] | None
    retry: Retry
    task_middleware: Sequence[TaskMiddleware] | None
    resources: Sequence[Resource]
    on_busy: OnBusyName
    busy_seconds: float | None


class Blueprint(Periodics):
    """A collection of tasks that you can add to an app.

    mail = Blueprint()

    @mail.task(lock="smtp")
    def send(to: str) -> None: ...

    app.add_tasks_from(mail, namespace="mail")   # as `mail:package.module.send`
    """

    tracing: Tracer | None = None  # an app's

    def __init__(self) -> None:
        self.tasks: dict[str, Task[..., Any]] = {}
        # The collections that this one was added to, with the namespaces.
        self._homes: list[tuple[Blueprint, str]] = []

    def add_task_alias(self, task: Task[..., Any], alias: str) -> None:
        """Give a task another name, so that jobs deferred under that name still run.

        app.add_task_alias(write, "old_name.write")
        """
        if task not in self.tasks.values():
            raise TaskNotFound(
                f"{task} is not in this collection. Add the alias to the blueprint or app that "
                "declares the task."
            )
        self._add({alias: task})

    def add_tasks_from(self, blueprint: Blueprint, *, namespace: str) -> None:
        """Add a blueprint's tasks, each under `namespace:name`. Aliases get the namespace too.

        Tasks declared on the blueprint later are added as well. A task is deferred through the app
        that it was last added to. Blueprints can be added to blueprints.
        """
        if blueprint in self._list_homes_above():
            raise TaskDefinitionError(
                "A blueprint cannot be added to itself or to one that it contains. Add it to "
                "another one."
            )
        self._add(blueprint.tasks, namespace)
        blueprint._homes.append((self, namespace))

    def _list_homes_above(self) -> Iterator[Blueprint]:
        yield self
        for home, _ in self._homes:
            yield from home._list_homes_above()

    def _add(self, tasks: Mapping[str, Task[..., Any]], namespace: str = "") -> None:
        """Add all of the tasks or none, here and wherever this blueprint was added."""
        places = list(self._list_places(tasks, namespace))
        for blueprint, named in places:
            if taken := [name for name in named if name in blueprint.tasks]:
                raise TaskAlreadyRegistered(
                    f"Two tasks are named {', '.join(map(repr, taken[:3]))}"
                    f"{' …' if len(taken) > 3 else ''}. "
                    "Give one of them another name=, or add its blueprint under another namespace."
                )
        for blueprint, named in places:
            blueprint.tasks |= named
            for task in named.values():
                names = [name for name, known in blueprint.tasks.items() if known is task]
                task.name, task.aliases = names[0], tuple(names[1:])

    def _list_places(
        self, tasks: Mapping[str, Task[..., Any]], namespace: str
    ) -> Iterator[tuple[Blueprint, dict[str, Task[..., Any]]]]:
        prefix = f"{namespace}:" if namespace else ""
        named = {arguments.check_task_name(prefix + name): task for name, task in tasks.items()}
        yield self, named
        for home, their_namespace in self._homes:
            yield from home._list_places(named, their_namespace)

    @overload
    def task(self, _func: Callable[P, T], /) -> Task[P, T]: ...
    @overload
    def task(
        self, *, pass_context: Literal[True], **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[Concatenate[JobContext, P], T]], Task[P, T]]: ...
    @overload
    def task(
        self, *, pass_context: Literal[False] = False, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[P, T]], Task[P, T]]: ...
    @show_options(DefaultOptions, CheckedOptions()._asdict())
    def task(
        self,
        _func: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        aliases: Sequence[str] | None = None,
        retry: Retry = False,
        pass_context: bool = False,
        task_middleware: Sequence[TaskMiddleware] | None = None,
        resources: Sequence[Resource] = (),
        on_busy: OnBusyName = "snooze",
        busy_seconds: float | None = None,
        **options: Unpack[DefaultOptions],
    ) -> Any:
        """Make a function a task. Workers find it by its name, by default `module.function`.

            @app.task(queue="letters", lock="alphabet", retry=3, timeout=30)
            def spell(letter: str) -> None: ...

        name, aliases: the names under which workers find the task.
        retry: the number of retries, which wait about 2, 4, 8, … seconds, at most an hour, randomly
        shortened by up to a quarter. False or None means never. True means immediately and forever.
        For other waits, pass a RetryStrategy.
        pass_context: pass the JobContext of the attempt as the first argument.
        queue: workers can be limited to some queues.
        priority: a job with a higher number starts first.
        lock: jobs with the same lock form a lane, which runs one job at a time.
        on_retry: while a job waits for its next attempt, its lane waits too ("hold") or continues
        ("release").
        on_failure: when a job fails for good, its lane continues ("continue") or stops until you
        resume it ("halt").
        queueing_lock, on_conflict, limit, group, expires_in, on_parent: see `configure`.
        timeout: in seconds or as a timedelta. A longer attempt fails with JobTimeout. An async task
        is cancelled. A sync task must check `context.should_abort()`, and keeps its slot until it
        ends.
        task_middleware: functions that run around the task; see `inturn.tasks.middleware`.
        resources: locks that the worker holds while the task runs: addresses, with the task's
        arguments in the lock's name ("redis://cache/0#printer:{printer}"), or functions that take
        the arguments and return an async lock.
        on_busy, busy_seconds: if a resource is held elsewhere, "snooze" the job or let it "wait",
        for `busy_seconds`, or "skip", "fail" or "proceed". See docs/locks.md.
        """
        declare = partial(
            self._declare, name=name, aliases=arguments.check_aliases(aliases), retry=retry,
            pass_context=pass_context, options=_check_options(options), resources=resources,
            task_middleware=task_middleware, on_busy=on_busy, busy_seconds=busy_seconds,
        )  # fmt: skip
        return declare if _func is None else declare(_func)

    def _declare(
        self,
        func: Callable[..., Any],
        *,
        name: str | None,
        aliases: Sequence[str],
        task_middleware: Sequence[TaskMiddleware] | None,
        **task_options: Any,
    ) -> Task[..., Any]:
        if not (name or hasattr(func, "__name__")):
            raise TaskDefinitionError(
                f"{func!r} is not a function with a name. Write @app.task(name=…) above a function"
            )
        own_name = arguments.check_task_name(name or default_name(func))
        if own_name in aliases:
            raise TaskAlreadyRegistered(
                f"The task {own_name!r} has its own name as an alias. Remove the alias."
            )
        if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise TaskDefinitionError(
                f"The task {own_name!r} is a generator, which would not run when it is called. "
                "Take out the `yield`"
            )
        is_async = inspect.iscoroutinefunction(func)
        layers = check_task_middleware(own_name, task_middleware, is_async_task=is_async)
        task: Task[..., Any] = Task(
            self, func, name=own_name, aliases=aliases, task_middleware=layers, **task_options
        )
        self._add(dict.fromkeys((own_name, *aliases), task))
        return task

    def find_task(self, name: str) -> Task[..., Any]:
        """Return the task with this name or alias, or raise TaskNotFound."""
        try:
            return self.tasks[name]
        except KeyError:
            raise TaskNotFound(
                f"No task is named {name!r} here. Import the module that declares it, or keep its "
                "old name in aliases=[…]."
            ) from None

    def _known_tasks(self) -> Iterable[str] | None:
        """Return the names of all tasks that a worker can run, or None if it may import others."""
        return self.tasks

    @property
    def json_dumps(self) -> JsonDumps | None:
        """The `json_dumps` of the app that this blueprint was last added to."""
        return self._homes[-1][0].json_dumps if self._homes else None

    def enqueue(self, jobs: Sequence[NewJob[R]], connection: object = None) -> list[DeferredJob[R]]:
        """Enqueue jobs through the app that this blueprint was last added to."""
        return self._home().enqueue(jobs, connection)

    async def enqueue_async(
        self, jobs: Sequence[NewJob[R]], connection: object = None
    ) -> list[DeferredJob[R]]:
        """Like `enqueue`, in an event loop."""
        return await self._home().enqueue_async(jobs, connection)

    def _home(self) -> Blueprint:
        if not self._homes:
            raise UnboundTaskError(NO_APP)
        return self._homes[-1][0]


def _check_options(given: DefaultOptions) -> CheckedOptions:
    """Return the options that a task sets for its jobs, or raise BadArgument."""
    if unknown := given.keys() - DefaultOptions.__annotations__.keys():
        raise UnknownOption(min(unknown), "a task", TaskOptions.__annotations__)
    return CheckedOptions().change(given)
