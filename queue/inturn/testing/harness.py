"""The queue of one test: what was enqueued, running it, what came of it, and what time it is."""

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, overload

from inturn.app import App
from inturn.database.connector import Connector
from inturn.tasks.task import Deferrer, Task
from inturn.testing import expectations, history
from inturn.testing.clock import Clock
from inturn.testing.connector import OpenConnector
from inturn.testing.jobs import Seen, all_jobs
from inturn.testing.recording import Run
from inturn.testing.running import How, Outcome, Runner, in_a_loop

P = ParamSpec("P")
R = TypeVar("R")
Named = str | Deferrer[...]


class Queue:
    """An app on the database of a test, from `with` to its end; the app needs no opening meanwhile.

    with Queue(app, dsn) as queue:
        write.defer(letter="a")
        queue.drain()
    """

    def __init__(self, app: App, dsn: str | None = None) -> None:
        self.app = app
        self._connector: Connector = app.connector
        if dsn is not None:
            self._connector = OpenConnector(dsn, schema=app.connector.schema)
        self._clock = Clock(self._connector)
        self._runner = Runner(app, self._clock)
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        if isinstance(self._connector, OpenConnector):
            self._ends.callback(self._connector.let_go)
        self._ends.callback(self._clock.thaw)  # the database may be one that stays
        self._ends.enter_context(self.app.replace_connector(self._connector))
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def runs(self) -> list[Run]:
        """All attempts that `drain` and `perform` have made, in the order in which they ended."""
        return self._runner.runs

    # ------------------------------------------------------------------ running jobs

    def drain(self, **how: Unpack[How]) -> list[Run]:
        """Run what is ready, and what becomes ready by that, until nothing is left; the runs, in the order in which they ended.

        until: stop as soon as it is true (asked before the first and after each run); fail if it never is.
        advance: freeze the clock and move it on by so much, from one due time to the next, so that retries and scheduled
        jobs run in no time. raises (True): a job that has failed for good raises its own error here. queues: only these.
        concurrency (1): how many at once. at_most (10,000): more runs are taken for an endless loop.

            write.configure(schedule_in={"minutes": 30}).defer(letter="a")
            assert len(queue.drain(advance=timedelta(hours=1))) == 1
        """
        __tracebackhide__ = True
        runs: list[Run] = _given(in_a_loop("drain", self._runner.drain, how))
        return runs

    async def drain_async(self, **how: Unpack[How]) -> list[Run]:
        """`drain`, for a test that is a coroutine: the tasks run in its event loop."""
        __tracebackhide__ = True
        runs: list[Run] = _given(await self._runner.drain(how))
        return runs

    @overload
    def perform(
        self, task: Task[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def perform(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def perform(self, task: Deferrer[P], *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def perform(self, task: Deferrer[...], *args: Any, **kwargs: Any) -> Any:
        """Defer one job and run it, and nothing else; what it returns, or its error. Its schedule is now, its lock holds.

        assert queue.perform(report.configure(lock="reports"), day=1) == 42
        """
        __tracebackhide__ = True
        return _given(in_a_loop("perform", self._runner.perform, task, args, kwargs))

    @overload
    async def perform_async(
        self, task: Task[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def perform_async(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def perform_async(self, task: Deferrer[P], *args: P.args, **kwargs: P.kwargs) -> Any: ...
    async def perform_async(self, task: Deferrer[...], *args: Any, **kwargs: Any) -> Any:
        """`perform`, for a test that is a coroutine."""
        __tracebackhide__ = True
        return _given(await self._runner.perform(task, args, kwargs))

    # ------------------------------------------------------------------ looking at jobs

    def jobs(self) -> list[Seen]:
        """All, live and finished, in the order in which they were deferred."""
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
        count: int | None = None,
    ) -> list[Seen]:
        """Such a job waits (count: exactly so many); they are returned. What is left out does not matter, in `args` too.

        ship.configure(lock="order:1").defer(order=1)
        queue.assert_enqueued(ship, args={"order": 1}, lock="order:1")
        """
        __tracebackhide__ = True
        wanted = expectations.wanted(
            task, args, lock=lock, queue=queue, priority=priority, scheduled_at=scheduled_at
        )
        found, problem = expectations.enqueued(wanted, self.jobs(), count)
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
        """No such job waits; without anything said: none at all."""
        __tracebackhide__ = True
        _check(
            expectations.not_enqueued(
                expectations.wanted(task, args, lock=lock, queue=queue), self.jobs()
            )
        )

    def assert_lane_order(self, lock: str, expected: Sequence[history.Step]) -> None:
        """The jobs with this lock that were begun are these, in this order. A step is a job's id, its task, or some of its args.

        write.configure(lock="alphabet").batch_defer({"letter": "a"}, {"letter": "b"})
        queue.drain(concurrency=4)
        queue.assert_lane_order("alphabet", [{"letter": "a"}, {"letter": "b"}])
        """
        __tracebackhide__ = True
        _check(history.order(lock, expected, self.jobs()))

    def assert_never_overlaps(self, lock: str) -> None:
        """Jobs with this lock have run, and no two of them at one time.

        write.configure(lock="alphabet").batch_defer({"letter": "a"}, {"letter": "b"})
        queue.drain(concurrency=4)
        queue.assert_never_overlaps("alphabet")
        """
        __tracebackhide__ = True
        _check(history.overlaps(lock, self.jobs(), self.runs))

    # ------------------------------------------------------------------ the clock

    def now(self) -> datetime:
        """What time it is for the engine."""
        return self._clock.now()

    def freeze(self, at: datetime | None = None) -> datetime:
        """From now on it is then (or now), for every connection of this database. Python's own clock goes on."""
        self._clock.set(self.now() if at is None else at)
        return self.now()

    def advance(self, by: timedelta | None = None, **units: float) -> datetime:
        """Later by so much, and frozen: `advance(minutes=5)`. It runs nothing; live workers count as heard of."""
        return self.freeze(self.now() + (by or timedelta()) + timedelta(**units))

    def thaw(self) -> None:
        """The server's clock again."""
        self._clock.thaw()


def _given(outcome: Outcome) -> Any:
    __tracebackhide__ = True
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _check(problem: str | None) -> None:
    __tracebackhide__ = True
    if problem is not None:
        raise AssertionError(problem)
