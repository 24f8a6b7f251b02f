"""A collection of tasks, by name."""

from __future__ import annotations

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
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.middleware import TaskMiddleware
from inturn.tasks.options import (
    CheckedOptions,
    DefaultOptions,
    NewJob,
    Retry,
    TaskOptions,
    show_options,
)
from inturn.tasks.periodic import Periodics
from inturn.tasks.resources import OnBusyName, Resource
from inturn.tasks.task import P, R, Task

NO_APP = (
    "These tasks belong to no App, which alone has a database to enqueue them in. Add their blueprint to one: "
    "app.add_tasks_from(blueprint, namespace=…), or declare them with @app.task."
)


def default_name(func: Callable[..., Any]) -> str:
    """`module.function`; of a program run as a script, the name under which a worker will import it."""
    module = func.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec else Path(getattr(main, "__file__", module)).stem
    return f"{module}.{func.__qualname__}"


class Blueprint(Periodics):
    """A collection of tasks, for an app to take over. An `App` is one that can also enqueue them.

    mail = Blueprint()

    @mail.task(lock="smtp")
    def send(to: str) -> None: ...

    app.add_tasks_from(mail, namespace="mail")   # as `mail:package.module.send`
    """

    def __init__(self) -> None:
        self.tasks: dict[str, Task[..., Any]] = {}
        self._homes: list[
            tuple[Blueprint, str]
        ] = []  # where these tasks were added, and under which namespace

    def add_task_alias(self, task: Task[..., Any], alias: str) -> None:
        """Find the task by this name too, so that jobs deferred under it still run: `add_task_alias(send, "old.send")`."""
        if task not in self.tasks.values():
            raise TaskNotFound(
                f"{task} is not in this collection. Give it the alias where it is declared, or in its app."
            )
        self._add({alias: task})

    def add_tasks_from(self, blueprint: Blueprint, *, namespace: str) -> None:
        """Take over its tasks, those declared on it later too: each as `namespace:name`, its aliases likewise.

        They are deferred through the app that they were added to last. Blueprints may be added to blueprints.
        """
        if blueprint in self._list_homes_above():
            raise TaskDefinitionError(
                "A blueprint cannot be added to itself, nor to one that it holds."
            )
        self._add(blueprint.tasks, namespace)
        blueprint._homes.append((self, namespace))

    def _list_homes_above(self) -> Iterator[Blueprint]:
        yield self
        for home, _ in self._homes:
            yield from home._list_homes_above()

    def _add(self, tasks: Mapping[str, Task[..., Any]], namespace: str = "") -> None:
        """All or none, here and wherever these tasks were added."""
        places = list(self._list_places(tasks, namespace))
        for blueprint, named in places:
            blueprint._check_free(named)
        for blueprint, named in places:
            blueprint.tasks |= named
            for task in named.values():
                names = [name for name, known in blueprint.tasks.items() if known is task]
                task.name, task.aliases = names[0], tuple(names[1:])

    def _list_places(
        self, tasks: Mapping[str, Task[..., Any]], namespace: str
    ) -> Iterator[tuple[Blueprint, dict[str, Task[..., Any]]]]:
        named = {
            arguments.check_task_name(_qualify(namespace, name)): task
            for name, task in tasks.items()
        }
        yield self, named
        for home, their_namespace in self._homes:
            yield from home._list_places(named, their_namespace)

    def _check_free(self, names: Iterable[str]) -> None:
        taken = [name for name in names if name in self.tasks]
        if taken:
            raise TaskAlreadyRegistered(
                f"Two tasks are named {', '.join(map(repr, taken[:3]))}{' …' if len(taken) > 3 else ''}. "
                "Give one of them another name=, or add its blueprint under another namespace."
            )

    @overload
    def task(self, _func: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self, *, pass_context: Literal[True], **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[Concatenate[JobContext, P], R]], Task[P, R]]: ...
    @overload
    def task(
        self, *, pass_context: Literal[False] = False, **options: Unpack[TaskOptions]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
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
        """Make a function a task. Its name is `module.function` unless given; workers find it by that name.

            @app.task(queue="letters", lock="alphabet", retry=3, timeout=30)
            def spell(letter: str) -> None: ...

        retry: False never, True for ever and at once, a number that many retries, or a strategy.
        pass_context: the first argument is the JobContext of the run.
        on_retry: while a job waits for its next attempt its lane waits too ("hold"), or goes on ("release").
        on_failure: when it has failed for good its lane goes on ("continue"), or stops until a person acts ("halt").
        queueing_lock, on_conflict: at most one job waits under it, see `configure`.
        timeout: a run that takes longer, in seconds, fails with JobTimeout: an async task is cancelled; a sync task is asked
        (`context.should_abort()`), and keeps its slot for as long as it goes on regardless.
        task_middleware: what runs around it, see `inturn.tasks.middleware`.
        resources: locks to hold while it runs, as addresses ("redis://cache/0#printer:{printer}", with arguments of the task in
        the name) or as functions that make an async lock of the arguments.
        on_busy, busy_seconds: while somebody else has one, the job goes
        back uncharged for `busy_seconds` and keeps its place ("snooze"), waits so long in its slot ("wait"), ends as cancelled
        ("skip"), fails ("fail"), or runs without ("proceed"); see docs/locks.md.
        """
        if unknown := options.keys() - DefaultOptions.__annotations__.keys():
            raise UnknownOption(min(unknown), "task", TaskOptions.__annotations__)
        declare = partial(
            self._declare,
            name=name,
            aliases=arguments.check_aliases(aliases),
            retry=retry,
            pass_context=pass_context,
            options=CheckedOptions().change(options),
            task_middleware=task_middleware,
            resources=resources,
            on_busy=on_busy,
            busy_seconds=busy_seconds,
        )
        return declare if _func is None else declare(_func)

    def _declare(
        self,
        func: Callable[..., Any],
        *,
        name: str | None,
        aliases: Sequence[str],
        **task_options: Any,
    ) -> Task[..., Any]:
        own_name = arguments.check_task_name(name or default_name(func))
        if own_name in aliases:
            raise TaskAlreadyRegistered(
                f"Two tasks are named {own_name!r}: it is its own alias. Leave the alias out."
            )
        task: Task[..., Any] = Task(self, func, name=own_name, aliases=aliases, **task_options)
        self._add(dict.fromkeys((own_name, *aliases), task))
        return task

    def find_task(self, name: str) -> Task[..., Any]:
        """The task of this name or alias, or TaskNotFound."""
        try:
            return self.tasks[name]
        except KeyError:
            raise TaskNotFound(
                f"No task is named {name!r} here. Import the module that declares it, or keep its old name in aliases=[…]."
            ) from None

    def enqueue(self, jobs: Sequence[NewJob], connection: object = None) -> list[DeferredJob]:
        """Enqueue jobs through the app that this blueprint was added to last."""
        return self._home().enqueue(jobs, connection)

    async def enqueue_async(
        self, jobs: Sequence[NewJob], connection: object = None
    ) -> list[DeferredJob]:
        """Like `enqueue`, in an event loop."""
        return await self._home().enqueue_async(jobs, connection)

    def _home(self) -> Blueprint:
        if not self._homes:
            raise UnboundTaskError(NO_APP)
        return self._homes[-1][0]


def _qualify(namespace: str, name: str) -> str:
    return f"{namespace}:{name}" if namespace else name
