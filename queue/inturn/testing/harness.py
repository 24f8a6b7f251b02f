"""The queue of one test: its jobs, running them, assertions, and the clock."""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, overload

from inturn.app import App
from inturn.database.connector import Connector
from inturn.errors import ConfigurationError
from inturn.tasks.task import Deferrer
from inturn.testing import expectations, history
from inturn.testing.clock import Clock
from inturn.testing.connector import OpenConnector
from inturn.testing.expectations import DjangoTask, Named
from inturn.testing.jobs import Seen, all_jobs
from inturn.testing.recording import Run
from inturn.testing.running import DrainOptions, Outcome, Runner, run_in_a_loop
from inturn.testing.transactions import (
    OTHER_DATABASE,
    FrameworkConnector,
    check_async,
    check_drain,
    check_perform,
)

P = ParamSpec("P")
R = TypeVar("R")


class Queue:
    """An app on a test's database. Inside the `with` block, you need not open the app.

    Omit the DSN if the app already uses that database, as Django's app does in Django's tests.

    with Queue(app, dsn) as queue:
        write.defer(letter="a")
        queue.drain()
    """

    def __init__(self, app: App, dsn: str | None = None) -> None:
        self.app = app
        self._connector: Connector = app.connector
        if dsn is not None:
            if isinstance(app.connector, FrameworkConnector):
                raise ConfigurationError(OTHER_DATABASE)
            self._connector = OpenConnector(dsn, app.connector)
        self._clock = Clock(self._connector)
        self._runner = Runner(app, self._clock)
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        if isinstance(self._connector, OpenConnector):
            self._ends.callback(self._connector.close_kept)
        self._ends.callback(self._clock.thaw)  # the database may be one that is kept
        self._ends.enter_context(self.app.replace_connector(self._connector))
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def runs(self) -> list[Run]:
        """All attempts of `drain` and `perform`, in the order in which they ended."""
        return self._runner.runs

    # ------------------------------------------------------------------ running jobs

    def drain(self, **options: Unpack[DrainOptions]) -> list[Run]:
        """Run jobs until none is ready, and return the runs in the order in which they ended.

        This includes jobs that become ready while it runs.

        until: stop as soon as this returns true, and fail if it never does. It is called before the
        first run and after each run.
        advance: freeze the clock and advance it by this much, from one due time to the next.
        Retries and scheduled jobs then run without a wait.
        raises: raise the error of a job that fails for good (default True).
        queues: run only jobs of these queues.
        concurrency: run this many jobs at once (default 1).
        at_most: treat more runs than this as an endless loop (default 10,000).

            write.configure(schedule_in={"minutes": 30}).defer(letter="a")
            assert len(queue.drain(advance=timedelta(hours=1))) == 1
        """
        __tracebackhide__ = True
        check_drain(self._connector)
        if _is_met(options):  # here, not in an event loop, where Django's ORM refuses to work
            return []
        runs: list[Run] = _unwrap(run_in_a_loop("drain", self._runner.drain, options))
        return runs

    async def drain_async(self, **options: Unpack[DrainOptions]) -> list[Run]:
        """Like `drain`, in an async test. Async tasks run in the test's event loop."""
        __tracebackhide__ = True
        await check_async(check_drain, self._connector)
        if _is_met(options):
            return []
        runs: list[Run] = _unwrap(await self._runner.drain(options))
        return runs

    @overload
    def perform(
        self, task: Deferrer[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def perform(self, task: Deferrer[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def perform(self, task: DjangoTask, *args: Any, **kwargs: Any) -> Any: ...
    def perform(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        """Defer one job, run only that one, and return its value or raise its error.

        It runs now, even if it is scheduled, but it respects its lock.

        assert queue.perform(report.configure(lock="reports"), day=1) == 42
        """
        __tracebackhide__ = True
        check_perform(self._connector)
        return _unwrap(run_in_a_loop("perform", self._runner.perform, task, args, kwargs))

    @overload
    async def perform_async(
        self, task: Deferrer[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def perform_async(self, task: Deferrer[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def perform_async(self, task: DjangoTask, *args: Any, **kwargs: Any) -> Any: ...
    async def perform_async(self, task: Any, *args: Any, **kwargs: Any) -> Any:
        """Like `perform`, in an async test."""
        __tracebackhide__ = True
        await check_async(check_perform, self._connector)
        return _unwrap(await self._runner.perform(task, args, kwargs))

    # ------------------------------------------------------------------ looking at jobs

    def jobs(self) -> list[Seen]:
        """Return all jobs, live and finished, in the order in which they were deferred."""
        return self._connector.run(all_jobs())

    def assert_enqueued(
        self,
        task: Named | None = None,
        *,
        args: Mapping[str, Any] | EllipsisType = ...,
        lock: str | EllipsisType | None = ...,
        queue: str | EllipsisType = ...,
        priority: int | EllipsisType = ...,
        scheduled_at: datetime | EllipsisType | None = ...,
        limit: str | EllipsisType | None = ...,
        group: str | EllipsisType | None = ...,
        batch: int | EllipsisType | None = ...,
        expires_at: datetime | EllipsisType | None = ...,
        count: int | None = None,
    ) -> list[Seen]:
        """Return the waiting jobs that match, and fail if there are none.

        With `count`, fail unless there are exactly that many. Fields that you omit, also in `args`,
        can have any value.

        ship.configure(lock="order:1").defer(order=1)
        queue.assert_enqueued(ship, args={"order": 1}, lock="order:1")
        """
        __tracebackhide__ = True
        wanted = expectations.wanted(
            task,
            args,
            lock=lock,
            queue=queue,
            priority=priority,
            scheduled_at=scheduled_at,
            limit=limit,
            group=group,
            batch=batch,
            expires_at=expires_at,
        )
        found, problem = expectations.check_enqueued(wanted, self.jobs(), count)
        _check(problem)
        return found

    def assert_not_enqueued(
        self,
        task: Named | None = None,
        *,
        args: Mapping[str, Any] | EllipsisType = ...,
        lock: str | EllipsisType | None = ...,
        queue: str | EllipsisType = ...,
    ) -> None:
        """Fail if a matching job waits. Without arguments, fail if any job waits."""
        __tracebackhide__ = True
        wanted = expectations.wanted(task, args, lock=lock, queue=queue)
        _check(expectations.check_not_enqueued(wanted, self.jobs()))

    def assert_lane_order(self, lock: str, expected: Sequence[history.Step]) -> None:
        """Fail unless exactly these jobs with this lock have started, in this order.

        A step is a job's id, its task, or some of its args. The last attempt of a job determines
        its place.

        write.configure(lock="alphabet").batch_defer({"letter": "a"}, {"letter": "b"})
        queue.drain(concurrency=4)
        queue.assert_lane_order("alphabet", [{"letter": "a"}, {"letter": "b"}])
        """
        __tracebackhide__ = True
        _check(history.check_order(lock, expected, self.jobs()))

    def assert_never_overlaps(self, lock: str) -> None:
        """Fail if two jobs with this lock ran at the same time, or if none has run.

        write.configure(lock="alphabet").batch_defer({"letter": "a"}, {"letter": "b"})
        queue.drain(concurrency=4)
        queue.assert_never_overlaps("alphabet")
        """
        __tracebackhide__ = True
        _check(history.check_overlaps(lock, self.jobs(), self.runs))

    def assert_never_more_than(self, n: int, *, limit: str) -> None:
        """Fail if more than n jobs with this limit ran at the same time, or if none has run.

        A pattern like `customer:*` applies to each of its keys separately.

        app.limits.set("printer", concurrency=2)
        write.configure(limit="printer").batch_defer({"letter": "a"}, {"letter": "b"})
        queue.drain(concurrency=4)
        queue.assert_never_more_than(2, limit="printer")
        """
        __tracebackhide__ = True
        _check(history.check_limit(n, limit, self.jobs(), self.runs))

    # ------------------------------------------------------------------ the clock

    def now(self) -> datetime:
        """Return the engine's time."""
        return self._clock.now()

    def freeze(self, at: datetime | None = None) -> datetime:
        """Freeze the engine's clock, at this time or now, for every connection of this database.

        Python's own clock keeps running.
        """
        self._clock.set(self.now() if at is None else at)
        return self.now()

    def advance(self, by: timedelta | None = None, **units: float) -> datetime:
        """Advance the engine's clock and freeze it: `advance(minutes=5)`.

        This runs no jobs. Live workers stay alive.
        """
        return self.freeze(self.now() + (by or timedelta()) + timedelta(**units))

    def thaw(self) -> None:
        """Go back to the server's clock."""
        self._clock.thaw()


def _unwrap(outcome: Outcome) -> Any:
    __tracebackhide__ = True
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _is_met(options: DrainOptions) -> bool:
    until = options.get("until")
    return until is not None and bool(until())


def _check(problem: str | None) -> None:
    __tracebackhide__ = True
    if problem is not None:
        raise AssertionError(problem)
