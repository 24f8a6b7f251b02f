"""How a test runs jobs: all that are ready, those that come due as the clock moves on, or a certain one."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, NamedTuple, TypedDict, TypeVar
from uuid import uuid4

import anyio

from inturn.app import App
from inturn.database import drive
from inturn.errors import ConfigurationError
from inturn.model import Reason, Status
from inturn.operations import Operation
from inturn.operations.jobs import explain
from inturn.tasks.task import Deferrer
from inturn.testing import recording
from inturn.testing.clock import Clock
from inturn.testing.drain import Drain
from inturn.testing.jobs import Seen, all_jobs, next_due
from inturn.testing.recording import Run

T = TypeVar("T")
MANY = 10_000


class How(TypedDict, total=False):
    """The options of `Queue.drain`, which explains them."""

    until: Callable[[], object] | None
    advance: timedelta | None
    queues: Sequence[str] | None
    concurrency: int
    raises: bool
    at_most: int


class Outcome(NamedTuple):
    """To be raised, or else returned, outside of the event loop: its frames tell a reader nothing."""

    value: Any
    error: BaseException | None = None


class Runner:
    def __init__(self, app: App, clock: Clock) -> None:
        self.runs: list[Run] = []
        self._app = app
        self._clock = clock

    async def drain(self, how: How) -> Outcome:
        until = how.get("until")
        if until is not None and until():
            return Outcome([])
        drain = self._drain(
            {"queues": how.get("queues"), "concurrency": how.get("concurrency", 1)}, how
        )
        advance = how.get("advance")
        if advance is None:
            await drain.work()
        else:
            await self._as_time_goes_by(drain, self._clock.now(), advance)
        drain.check()
        if until is not None and not drain.met:
            return Outcome(None, AssertionError(self._left_over(len(drain.runs))))
        return Outcome(drain.runs, self._failure(drain.runs) if how.get("raises", True) else None)

    async def perform(
        self, target: Deferrer[...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Outcome:
        """In a queue of its own, so that nothing else is run."""
        alone = f"perform-{uuid4().hex}"
        job = target._job(args, kwargs)
        options = job.options._replace(queue=alone, schedule_at=None, schedule_in=None)
        job = job._replace(options=options)
        with closing(self._app.connector.connect("test")) as own:
            [job_id] = self._app.enqueue([job], own)
        drain = self._drain({"queues": [alone]}, {})
        await drain.work()
        drain.check()
        if not drain.runs:
            return Outcome(
                None, AssertionError(_not_run(job_id, target, self._ask(explain(job_id))))
            )
        last = drain.runs[-1]
        return Outcome(last.value, self._failure([last]) or (last.error and shortened(last)))

    def _drain(self, given: Mapping[str, Any], how: How) -> Drain:
        at_most = how.get("at_most", MANY)
        return Drain(
            self._app, given, until=how.get("until"), at_most=at_most, note=self.runs.append
        )

    async def _as_time_goes_by(self, drain: Drain, start: datetime, advance: timedelta) -> None:
        end = start + advance
        self._clock.set(start)
        while True:
            await drain.work()
            if drain.is_over:
                return
            due = self._ask(next_due())
            if due is None or due > end:
                break
            self._clock.set(due)
        self._clock.set(end)

    def _failure(self, runs: Sequence[Run]) -> BaseException | None:
        """The error of the first job that has failed for good, with a word on the others."""
        last = {run.job.id: run for run in runs}
        failed = {job.id: job for job in self._ask(all_jobs()) if job.status is Status.FAILED}
        broken = [run for run in last.values() if run.job.id in failed]
        if not broken:
            return None
        error = _error_of(broken[0], failed[broken[0].job.id])
        if len(broken) > 1:
            error.add_note(
                f"{len(broken) - 1} more failed: {', '.join(_named(run) for run in broken[1:6])}"
            )
        return error

    def _left_over(self, count: int) -> str:
        waiting = [f"  {job}" for job in self._ask(all_jobs()) if job.is_waiting][:10]
        lines = ["These wait:", *waiting] if waiting else ["No job waits."]
        return "\n".join(
            [f"until= is still false after {count} runs, and nothing can be run now.", *lines]
        )

    def _ask(self, operation: Operation[T]) -> T:
        """On a connection of its own: the app's may be one that must not be used in an event loop (Django's)."""
        with closing(self._app.connector.connect("test")) as own:
            return drive.run(operation, own, self._app.connector.schema)


def in_a_loop(name: str, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """For a test that is no coroutine."""
    if _in_a_loop_already():
        raise ConfigurationError(
            f"This test runs in an event loop. Write: await queue.{name}_async(…)"
        )
    return anyio.run(function, *args)


def _in_a_loop_already() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def shortened(run: Run) -> BaseException:
    """The run's error, with a traceback that begins in the task, and a note that says whose it is."""
    assert run.error is not None
    frames: TracebackType | None = run.error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != recording.__file__:
        frames = frames.tb_next
    error = run.error.with_traceback(frames.tb_next if frames else run.error.__traceback__)
    error.add_note(f"raised by {_named(run)}, attempt {run.job.attempts + 1}")
    return error


def _error_of(run: Run, failed: Seen) -> BaseException:
    """What its task raised, or what the worker says where the task raised nothing of its own: it took too long, say."""
    if run.error is not None and not isinstance(run.error, asyncio.CancelledError):
        return shortened(run)
    return AssertionError(f"{_named(run)} failed:\n{failed.errors[-1]['error']}")


def _named(run: Run) -> str:
    return f"job {run.job.id} of task {run.job.task_name}"


def _not_run(job_id: int, target: Deferrer[...], reasons: Sequence[Reason]) -> str:
    # That nobody serves its queue is also said, and true: the worker of the test is gone again.
    because = [f"  {r.reason}: {r.detail}" for r in reasons if r.reason.startswith("lane")]
    return "\n".join(
        [
            f"Job {job_id} of task {target._name} was not run, because of what is there already:",
            *because,
        ]
    )
