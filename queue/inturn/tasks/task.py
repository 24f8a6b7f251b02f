"""Tasks, and how a call or a schedule of one becomes a job."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Unpack, overload

from inturn import arguments
from inturn.errors import BadArgument, TaskDefinitionError, kind_of
from inturn.schedules.misfires import CatchUp, MisfirePolicy
from inturn.tasks.deferred import DeferredJob, R_co
from inturn.tasks.lanes import first_lock
from inturn.tasks.options import CheckedOptions, JobOptions, NewJob, R, show_options
from inturn.tasks.resources import Resource, declare_resources
from inturn.tasks.retry import Retry, find_strategy
from inturn.values import Decoders, JsonDumps

if TYPE_CHECKING:
    from inturn.schedules.cron import Cron

P = ParamSpec("P")
AT_ONCE = 100  # how many missed instants are deferred in one step
# How Celery, RQ and Dramatiq call it, and how we do.
ELSEWHERE = {
    "delay": "defer(…)",
    "delay_on_commit": "defer(…), which joins your transaction",
    "apply_async": "configure(…).defer(…)",
    "send": "defer(…)",
    "send_with_options": "configure(…).defer(…)",
}


class TaskCollection(Protocol):
    """The Blueprint or App that a task belongs to."""

    tasks: dict[str, Task[..., Any]]

    @property
    def json_dumps(self) -> JsonDumps | None:
        """The connector's own encoder for arguments, if any."""

    def find_task(self, name: str) -> Task[..., Any]:
        """Return the task with this name or alias, or raise TaskNotFound."""

    def enqueue(self, jobs: Sequence[NewJob[R]], connection: object = None) -> list[DeferredJob[R]]:
        """Enqueue jobs."""

    async def enqueue_async(
        self, jobs: Sequence[NewJob[R]], connection: object = None
    ) -> list[DeferredJob[R]]:
        """Like `enqueue`, in an event loop."""


class Deferrer(Generic[P, R_co]):
    """Defers jobs of one task with fixed options. `task.configure` returns one, and a task is one.

    later = write.configure(lock="alphabet", schedule_in={"minutes": 5})
    later.defer("a")
    later.defer(letter="b")
    """

    def __init__(
        self,
        owner: TaskCollection,
        name: str,
        task: Task[P, R_co] | None,
        options: CheckedOptions,
        task_kwargs: Mapping[str, Any] | None = None,
        connection: object = None,
    ) -> None:
        self._owner = owner
        self._name = name
        self._task = task  # None: it belongs to another program
        self._options = options
        self._kwargs = dict(arguments.check_mapping(task_kwargs or {}))
        self._connection = connection

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            advice = f". Use {ELSEWHERE[name]}" if name in ELSEWHERE else ""
            kind = type(self).__name__
            raise AttributeError(f"a {kind} has no {name!r}{advice}", name=name, obj=self)

    def defer(self, *args: P.args, **kwargs: P.kwargs) -> DeferredJob[R_co]:
        """Enqueue one job and return its id.

        The id's `is_new` is False if it is that of a job already waiting; see `configure`.
        """
        [job] = self._owner.enqueue([self._job(args, kwargs)], self._connection)
        return job

    async def defer_async(self, *args: P.args, **kwargs: P.kwargs) -> DeferredJob[R_co]:
        """Like `defer`, in an event loop."""
        [job] = await self._owner.enqueue_async([self._job(args, kwargs)], self._connection)
        return job

    def batch_defer(self, *task_kwargs: Mapping[str, Any]) -> list[DeferredJob[R_co]]:
        """Enqueue a job for each mapping of arguments, in this order, all or none.

        write.configure(lock="alphabet").batch_defer({"letter": "a"}, {"letter": "b"})

        It opens no batch. Type checkers do not see the names in the mappings; with `make_new_job`
        and `app.enqueue` they do, and each job can have its own lock.
        """
        return self._owner.enqueue(self._jobs(task_kwargs), self._connection)

    async def batch_defer_async(self, *task_kwargs: Mapping[str, Any]) -> list[DeferredJob[R_co]]:
        """Like `batch_defer`, in an event loop."""
        return await self._owner.enqueue_async(self._jobs(task_kwargs), self._connection)

    def make_new_job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[R_co]:
        """Create a job for `app.enqueue`. Type checkers check its arguments.

            jobs = [write.configure(lock=f"line:{letter}").make_new_job(letter) for letter in "abc"]
            ids = app.enqueue(jobs)

        For your own transaction, pass your `connection` to `enqueue`.
        """
        if self._connection is not None:
            raise BadArgument(
                "connection",
                "is not part of a job. Pass it to the call that takes the job, such as "
                "app.enqueue(jobs, connection=…)",
            )
        return self._job(args, kwargs)

    def _jobs(self, task_kwargs: Sequence[object]) -> list[NewJob[R_co]]:
        jobs = []
        for index, kwargs in enumerate(task_kwargs):
            try:
                given = kwargs if isinstance(kwargs, dict) else _check_mapping(kwargs)
                jobs.append(self._job((), given))
            except BadArgument as error:
                raise BadArgument(f"job {index}, {error.argument}", error.problem) from None
        return jobs

    def _job(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob[R_co]:
        task, given = self._task, {**self._kwargs, **kwargs}
        name, decoders = self._name, None
        if task is not None:
            # A blueprint may have been added to an app since, so the task's name is read now.
            name, decoders = task.name, task.decoders
            if args or given.keys() != task.names:  # most give all, by name
                given = arguments.bind(self._name, task.func, task.signature, args, given)
        elif args:
            raise BadArgument(
                f"task {self._name}",
                "is not declared here, so its arguments have no order. Pass them by name",
            )
        if (dumps := self._owner.json_dumps) is None:
            text = arguments.encode(given, decoders)
        else:
            text = arguments.encode_with(dumps, given)
        return NewJob(name, text, self._options, decoders)


class Task(Deferrer[P, R_co]):
    """A function that can be deferred. Calling it runs it here and now.

        write.defer(letter="a")  # makes a job, which a worker runs
        await write.configure(priority=5).defer_async("b")  # the same from async code
        write("c")  # calls the function

    A Task supports everything that a Deferrer does, with the task's options.
    """

    def __init__(
        self,
        owner: TaskCollection,
        func: Callable[..., R_co],
        *,
        name: str,
        aliases: Sequence[str],
        retry: Retry,
        pass_context: bool,
        options: CheckedOptions,
        task_middleware: Sequence[Callable[..., Any]] = (),
        resources: Sequence[Resource] = (),
        on_busy: str = "snooze",
        busy_seconds: float | None = None,
    ) -> None:
        functools.update_wrapper(self, func)  # the attributes below are our own
        super().__init__(owner, name, self, options)
        parameters = list(_find_signature(func).parameters.values())
        if pass_context and not parameters:
            raise TaskDefinitionError(
                f"Task {name} has pass_context=True but takes no argument. Declare a first "
                "argument for the context."
            )
        self.func = func
        self.name = name
        self.aliases = tuple(aliases)
        self.retry_strategy = find_strategy(retry)
        self.pass_context = pass_context
        self.is_async = inspect.iscoroutinefunction(func)
        signature = inspect.Signature(parameters[1:] if pass_context else parameters)
        self.signature = arguments.check_signature(name, signature)
        self.names = arguments.names(self.signature)
        self.decoders = Decoders(func, self.signature)
        self.task_middleware = tuple(task_middleware)
        self.schedules: dict[str, Schedule] = {}
        self.resources = declare_resources(name, self.signature, resources, on_busy, busy_seconds)

    @property
    def queue(self) -> str:
        """The queue of its jobs. `configure` can change it, and the options below, for a job."""
        return str(self._options.queue)

    @property
    def priority(self) -> int:
        """The priority of its jobs."""
        return int(self._options.priority)

    @property
    def lock(self) -> str | None:
        """The lock of its jobs, or the first one of several."""
        return first_lock(self._options.lock)

    @property
    def queueing_lock(self) -> str | None:
        """The queueing lock of its jobs."""
        queueing_lock: str | None = self._options.queueing_lock
        return queueing_lock

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @overload
    def configure(
        self, *, task_kwargs: None = None, **options: Unpack[JobOptions]
    ) -> Deferrer[P, R_co]: ...
    @overload
    def configure(
        self, *, task_kwargs: Mapping[str, Any], **options: Unpack[JobOptions]
    ) -> Deferrer[..., R_co]: ...
    @show_options(JobOptions, {})
    def configure(
        self, *, task_kwargs: Mapping[str, Any] | None = None, **options: Unpack[JobOptions]
    ) -> Deferrer[..., R_co]:
        """Return a deferrer with other options. Options you omit stay as the task declares them.

        schedule_at, schedule_in: do not start the job before this time, which needs a time zone, or
        until this long from now.
        task_kwargs: arguments for the task; `defer` can add more, and type checkers check neither.
        timeout, on_retry, on_failure, queue, priority, lock: as for the task. You can pass up to
        eight locks: ["a", shared("b")].
        limit: a key, such as "stripe". `app.limits` sets how many of its jobs may run.
        group: a name, such as "tenant:7". Groups take turns; see `app.groups`.
        expires_at, expires_in: the job is cancelled if its first attempt has not started by this
        time, which needs a time zone, or this long after you defer it.
        headers: names and values beside the arguments, for middleware; see `context.headers`.
        after, on_parent: start the job once these jobs have ended (ids, or what `defer` returned).
        If one does not succeed, "cancel" this one, let it "go", or "hold" it. See docs/flow.md.
        batch: the batch that the job belongs to; see `app.batch`.
        cell: a key, such as "tenant:7", put before each lock in braces; see docs/cells.md.

            write.configure(after=[write.defer("a")], expires_in={"hours": 1}).defer("b")

        At most one job waits under a `queueing_lock`. A running job does not count. `on_conflict`
        determines what happens to a new job while another is waiting:

        raise: raise AlreadyEnqueued. Your transaction stays intact.
        skip: enqueue nothing, and return the id of the waiting job, with `is_new` set to False. If
        that job has expired and is about to be cancelled, it takes over the new work, as in
        "replace".
        replace: like "skip", but the waiting job takes over the new one's task, arguments, headers,
        timeout and expiry. If it is scheduled, it also takes over the time, queue, priority, group,
        on_retry and on_failure, unless it waits for a retry with its lane. It keeps its id, lock
        and place in the lane. It must have the same limit.

            report.configure(queueing_lock="report:1", on_conflict="skip").defer(day=1)

        After "skip" and "replace", the waiting job starts only after you commit, so it sees what
        your transaction wrote. Keep these transactions short: the job waits while any of them is
        open, and forever if one always is.

        With your own `connection` (of psycopg, psycopg 2 or asyncpg, or a SQLAlchemy connection or
        session), the job exists if and only if you commit.

            with psycopg.connect(dsn) as connection:
                connection.execute("INSERT INTO orders (id) VALUES (7)")
                ship.configure(connection=connection, lock="customer:ann").defer(order=7)
        """
        connection = options.pop("connection", None)
        changed = self._options.change(options)
        return Deferrer(self._owner, self.name, self, changed, task_kwargs, connection)


def _check_mapping(kwargs: object) -> Mapping[str, Any]:
    if isinstance(kwargs, list | tuple | Iterator):
        kind = kind_of(kwargs)
        raise BadArgument("arguments", f"are {kind}. Unpack it: batch_defer(*jobs)")
    return arguments.check_mapping(kwargs)


def _find_signature(func: Callable[..., Any]) -> inspect.Signature:
    """Return the signature to bind a job's arguments to.

    A decorator that takes `**kwargs` may add arguments itself, such as a session, so none of the
    decorated function's arguments is required.
    """
    own = inspect.signature(func, follow_wrapped=False)
    if not any(each.kind is each.VAR_KEYWORD for each in own.parameters.values()):
        return own
    declared = inspect.signature(func)
    if declared == own:
        return own
    optional = [
        each
        if each.default is not each.empty or each.kind in _VARIABLE
        else each.replace(default=None)
        for each in declared.parameters.values()
    ]
    return declared.replace(parameters=optional)


_VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """When a periodic task runs, and the options of its jobs."""

    task: Task[..., Any]
    periodic_id: str
    cron: Cron
    options: Mapping[str, Any]
    overrides: Mapping[str, Any]  # what this schedule overrides in its app's policy

    def __str__(self) -> str:
        return f"{self.task.name} {self.periodic_id!r}" if self.periodic_id else self.task.name

    def job(self, instant: datetime) -> NewJob:
        return self.task.configure(**self.options)._job((), {"timestamp": int(instant.timestamp())})

    def due(self, after: datetime, now: datetime, policy: MisfirePolicy) -> list[datetime]:
        """Return the instants to defer now, in order, at most AT_ONCE."""
        start = max(after, now - policy.max_delay - timedelta(microseconds=1))
        if policy.catch_up is CatchUp.ALL:
            return list(islice(self.cron.between(start, now), AT_ONCE))
        newest = self.cron.newest(start, now)
        return [] if newest is None else [newest]
