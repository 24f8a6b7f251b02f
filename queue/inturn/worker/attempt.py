"""One attempt at a job: from the claim to how it ended. It never raises what user code raised."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from inturn.errors import DatabaseUnavailable, JobAborted, JobSkipped, JobTimeout, Snoozed
from inturn.model import Again, Committed, Ended, Job, Outcome, Status
from inturn.tasks.context import JobContext
from inturn.tasks.task import Task
from inturn.worker import result_json
from inturn.worker.error_text import MAX_CHARACTERS, describe, storable
from inturn.worker.middleware_chain import MiddlewareChain

if TYPE_CHECKING:
    from inturn.worker.resources import HeldLocks

MOST_OUTAGES = 5  # attempts that an outage may cost a task without `retry`; then it may be what ends the connection
OUTAGE_PAUSE = timedelta(seconds=1)


class Abandoned(BaseException):
    """Nobody waits for the thread any more."""


class Attempt:
    """A job in the hands of a worker."""

    __slots__ = (
        "_aborted",
        "_scope",
        "_thread_scope",
        "_timed_out",
        "around",
        "claimed_at",
        "committed",
        "context",
        "deadline",
        "holding",
        "is_overdue",
        "job",
        "lost_database",
        "task",
    )

    def __init__(self, job: Job, task: Task[..., Any], context: JobContext | None) -> None:
        self.job = job
        self.task = task
        self.context = context  # only if the task, or a middleware, asks for it
        self.around: MiddlewareChain | None = None
        self.holding: HeldLocks | None = None  # what it needs to hold while it runs
        self.claimed_at = time.monotonic()
        self._scope = anyio.CancelScope()
        self._thread_scope: anyio.CancelScope | None = None  # of a sync task
        self._aborted: str | None = None
        self._timed_out = False
        self.deadline: float | None = None  # while it runs, if it has a timeout
        self.is_overdue = False  # it runs on past that, which was said
        self.lost_database = False  # in a transaction of the task's, which is rolled back
        self.committed = (
            False  # by the task itself: the job has ended, whatever its code does from there on
        )

    def give_back(self, reason: str) -> None:
        """End the run, not the job: it goes back to its lane. An async task is cancelled; a sync one can only be asked."""
        if self.context is not None:
            self.context.abort_reason = reason
        self._scope.cancel()

    def abort(self, reason: str) -> None:
        """End the job, for good."""
        self._aborted = reason
        self.give_back(reason)

    def abandon(self) -> None:
        """Wait no longer for a thread that cannot be stopped. The job has not ended, whatever the thread still does."""
        if self._thread_scope is not None:
            self._thread_scope.cancel()

    async def perform(self, limiter: anyio.CapacityLimiter, max_result: int) -> Outcome | None:
        """How it ended, or None if it was given back: then the job has not ended."""
        timer: asyncio.TimerHandle | None = None
        try:
            with self._scope:
                if self.holding is not None:
                    await self.holding.take()
                if self.job.timeout is not None:
                    timer = self._wind_up(self.job.timeout.total_seconds())
                value = await self._call(limiter)
                return self._returned(value, max_result)
            return self._interrupted()
        except Abandoned:
            return None
        except (
            BaseException
        ) as error:  # SystemExit, a stray CancelledError: user code must not end the worker
            if is_cancelled():
                raise  # the worker itself
            return self._failed(error)
        finally:
            self.deadline = None
            if timer is not None:
                timer.cancel()

    def _wind_up(self, seconds: float) -> asyncio.TimerHandle:
        self.deadline = time.monotonic() + seconds
        return asyncio.get_running_loop().call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        self._timed_out = True
        self.give_back(str(self._overrun()))

    def ask_to_end(self) -> None:
        """The time is over, and the event loop may be unable to say so. May be called in any thread."""
        self._timed_out = True
        if self.context is not None and self.context.abort_reason is None:
            self.context.abort_reason = str(self._overrun())

    def _overrun(self) -> JobTimeout:
        return JobTimeout(f"the run took longer than its timeout of {self.job.timeout}")

    def _call(self, limiter: anyio.CapacityLimiter) -> Awaitable[Any]:
        if self.around is None or self.context is None:
            return self._run(limiter, self.task.func)
        return self.around.call(self.task, self.context, partial(self._run, limiter))

    async def _run(self, limiter: anyio.CapacityLimiter, function: Callable[..., Any]) -> Any:
        args = (self.context,) if self.task.pass_context else ()
        if self.task.is_async:
            return await function(*args, **self.job.task_kwargs)
        # Shielded: only `abandon` ends the wait for a thread.
        with anyio.CancelScope(shield=True) as self._thread_scope:
            error, value = await anyio.to_thread.run_sync(
                _caught,
                function,
                args,
                self.job.task_kwargs,
                limiter=limiter,
                abandon_on_cancel=True,
            )
            if error is not None:
                raise error
            return value
        raise Abandoned

    def _returned(self, value: object, max_result: int) -> Outcome:
        if self.committed:
            return Committed(self.job)
        if self._timed_out:  # a sync task; whether it did all of its work or gave up cannot be told
            return self._failed(self._overrun())
        result = None if value is None else result_json.encode(self.job, value, max_result)
        return Ended(self.job, Status.SUCCEEDED, None, result)

    def _interrupted(self) -> Outcome | None:
        """The task was cancelled."""
        if self.committed:
            return Committed(self.job)
        if self._aborted:
            return Ended(self.job, Status.ABORTED, self._aborted)
        return self._failed(self._overrun()) if self._timed_out else None

    def _was_interrupted(self, error: BaseException) -> bool:
        """Whether it failed because its own transaction lost the database, or could not be ended."""
        return self.lost_database and isinstance(error, DatabaseUnavailable)

    def _failed(self, error: BaseException) -> Outcome:
        if self.committed:
            return Committed(self.job, describe(error))
        if isinstance(error, Snoozed) and not self._timed_out:
            return Again(self.job, error.delay, uncharged=True)
        if isinstance(error, JobSkipped):
            return Ended(self.job, Status.CANCELLED, storable(str(error)))
        if self._timed_out and not self._aborted and not isinstance(error, JobTimeout):
            error, cause = (
                self._overrun(),
                error,
            )  # whatever it raised, it did so because it was stopped, or too late
            error.__cause__ = cause
        text = describe(error)
        if isinstance(error, JobAborted):
            return Ended(self.job, Status.ABORTED, text)
        strategy = self.task.retry_strategy
        try:
            d = strategy.get_retry_decision(exception=error, job=self.job) if strategy else None
            if (
                strategy is None
                and self._was_interrupted(error)
                and self.job.attempts < MOST_OUTAGES
            ):
                return Again(self.job, OUTAGE_PAUSE, text)  # an outage is no failure of the task
            if d is None:
                return Ended(self.job, Status.FAILED, text)
            return Again(
                self.job, d.retry_in or timedelta(0), text, d.retry_at, d.priority, d.queue, d.lock
            )
        except Exception as mistake:
            return Ended(
                self.job,
                Status.FAILED,
                f"{text}\nand its retry strategy failed:\n{describe(mistake)}"[-MAX_CHARACTERS:],
            )


def is_cancelled() -> bool:
    """Whether the worker cancels the code around this call; otherwise a cancellation comes from somewhere else."""
    return anyio.current_effective_deadline() == -math.inf


def _caught(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[BaseException | None, Any]:
    """What it raised, as a value (StopIteration and SystemExit do not survive the way out of a thread), and returned."""
    try:
        return None, function(*args, **kwargs)
    except BaseException as error:
        return error, None
