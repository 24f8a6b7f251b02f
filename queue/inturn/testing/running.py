"""Run jobs in a test: those that are ready, those that come due as the clock moves, or just one."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, NamedTuple, TypedDict, TypeVar
from uuid import uuid4

import anyio

from inturn.app import App
from inturn.control.twins import is_in_loop
from inturn.errors import ConfigurationError
from inturn.model import Status
from inturn.operations import Operation
from inturn.operations.changes.jobs import explain
from inturn.tasks.options import NewJob
from inturn.testing import recording
from inturn.testing.clock import Clock
from inturn.testing.drain import Drain
from inturn.testing.expectations import task_name
from inturn.testing.jobs import Seen, all_jobs, next_due
from inturn.testing.recording import Run

T = TypeVar("T")
MANY = 10_000
ABOUT_WORKERS = ("queue unserved", "task unknown", "workers blocked", "slots busy")


class DrainOptions(TypedDict, total=False):
    """The options of `Queue.drain`, which documents them."""

    until: Callable[[], object] | None
    advance: timedelta | None
    queues: Sequence[str] | None
    concurrency: int
    raises: bool
    at_most: int


class Outcome(NamedTuple):
    """A value or an error, to return or raise outside the event loop.

    Event loop frames would only make your traceback longer.
    """

    value: Any
    error: BaseException | None = None


class Runner:
    def __init__(self, app: App, clock: Clock) -> None:
        self.runs: list[Run] = []
        self._app = app
        self._clock = clock

    async def drain(self, options: DrainOptions) -> Outcome:
        until = options.get("until")
        given = {"queues": options.get("queues"), "concurrency": options.get("concurrency", 1)}
        drain = self._drain(given, options)
        advance = options.get("advance")
        if advance is None:
            await drain.work()
        else:
            await self._advance(drain, self._clock.now(), advance)
        drain.check()
        if until is not None and not drain.met:
            return Outcome(None, AssertionError(self._describe_waiting(len(drain.runs))))
        error = self._failure(drain.runs) if options.get("raises", True) else None
        return Outcome(drain.runs, error)

    async def perform(
        self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Outcome:
        """Run one new job in a queue of its own, so that no other job runs."""
        alone = f"perform-{uuid4().hex}"
        job: NewJob = target.make_new_job(*args, **kwargs)
        options = job.options._replace(queue=alone, schedule_at=None, schedule_in=None)
        job = job._replace(options=options)
        with closing(self._app.connector.connect("test")) as own:
            [job_id] = self._app.enqueue([job], own)
        drain = self._drain({"queues": [alone]}, {})
        await drain.work()
        drain.check()
        if not drain.runs:
            return Outcome(None, AssertionError(self._describe_not_run(job_id, task_name(target))))
        last = drain.runs[-1]
        return Outcome(last.value, self._failure([last]) or (last.error and shorten(last)))

    def _drain(self, given: Mapping[str, Any], options: DrainOptions) -> Drain:
        at_most = options.get("at_most", MANY)
        return Drain(
            self._app, given, until=options.get("until"), at_most=at_most, note=self.runs.append
        )

    async def _advance(self, drain: Drain, start: datetime, advance: timedelta) -> None:
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
        """Return the error of the first job that failed for good, with a note about the others."""
        last = {run.job.id: run for run in runs}
        failed = {job.id: job for job in self._ask(all_jobs()) if job.status is Status.FAILED}
        broken = [run for run in last.values() if run.job.id in failed]
        if not broken:
            return None
        error = _error_of(broken[0], failed[broken[0].job.id])
        if len(broken) > 1:
            error.add_note(
                f"{len(broken) - 1} more failed: {', '.join(_name(run) for run in broken[1:6])}"
            )
        return error

    def _describe_waiting(self, count: int) -> str:
        waiting = [job for job in self._ask(all_jobs()) if job.is_waiting][:10]
        lines = ["Waiting jobs:"] if waiting else ["No job is waiting."]
        for job in waiting:
            lines += [f"  {job}", *(f"    {text}" for text in self._explain(job.id))]
        return "\n".join(
            [f"until= is still false after {count} runs, and no job is ready to run.", *lines]
        )

    def _describe_not_run(self, job_id: int, task: str) -> str:
        errors = [job.errors[-1]["error"] for job in self._ask(all_jobs())
                  if job.id == job_id and job.errors]  # fmt: skip
        problem = f"Job {job_id} of task {task} did not run:"
        return "\n".join([problem, *self._explain(job_id), *(f"  {error}" for error in errors)])

    def _explain(self, job_id: int) -> list[str]:
        """Return why a job does not run. Workers are left out, since the test's has ended."""
        reasons = self._ask(explain(job_id))
        return [f"  {r.reason}: {r.detail}" for r in reasons if r.reason not in ABOUT_WORKERS]

    def _ask(self, operation: Operation[T]) -> T:
        """Run the operation on a new connection.

        The app's own connection may not work in an event loop; Django's does not.
        """
        with closing(self._app.connector.connect("test")) as own:
            return self._app.connector.run(operation, own)


def run_in_a_loop(name: str, function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run the coroutine function in a new event loop, for a sync test."""
    if is_in_loop():
        raise ConfigurationError(
            f"This test runs in an event loop. Use: await queue.{name}_async(…)"
        )
    return anyio.run(function, *args)


def shorten(run: Run) -> BaseException:
    """Return the run's error: its traceback starts in the task, and a note names the job."""
    assert run.error is not None
    frames: TracebackType | None = run.error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != recording.__file__:
        frames = frames.tb_next
    error = run.error.with_traceback(frames.tb_next if frames else run.error.__traceback__)
    error.add_note(f"raised by {_name(run)}, attempt {run.job.attempts + 1}")
    return error


def _error_of(run: Run, failed: Seen) -> BaseException:
    """Return what the task raised, or else what the worker reported, such as a timeout."""
    if run.error is not None and not isinstance(run.error, asyncio.CancelledError):
        return shorten(run)
    return AssertionError(f"{_name(run)} failed:\n{failed.errors[-1]['error']}")


def _name(run: Run) -> str:
    return f"job {run.job.id} of task {run.job.task_name}"
