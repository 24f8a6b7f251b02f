"""One attempt at a job: from the claim to how it ended. It never raises what user code raised."""

import math
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from inturn.context import JobContext
from inturn.errors import JobAborted, JobSkipped, Snoozed
from inturn.model import Again, Ended, Job, Outcome, Status
from inturn.tasks import Task

if TYPE_CHECKING:
    from inturn.worker.resources import Holding

MAX_ERROR = 8192


class Attempt:
    """A job in the hands of a worker."""

    __slots__ = ("_aborted", "_scope", "claimed_at", "context", "holding", "job", "task")

    def __init__(self, job: Job, task: Task[..., Any], context: JobContext | None) -> None:
        self.job = job
        self.task = task
        self.context = context  # only for a task that asked for it
        self.holding: Holding | None = None  # what it needs to hold while it runs
        self.claimed_at = time.monotonic()
        self._scope = anyio.CancelScope()
        self._aborted: str | None = None

    def give_back(self, reason: str) -> None:
        """End the run, not the job: it goes back to its lane. An async task is cancelled; a sync one can only be asked."""
        if self.context is not None:
            self.context.abort_reason = reason
        self._scope.cancel()

    def abort(self, reason: str) -> None:
        """End the job, for good."""
        self._aborted = reason
        self.give_back(reason)

    async def perform(self, limiter: anyio.CapacityLimiter) -> Outcome | None:
        """How it ended, or None if it was given back: then the job has not ended."""
        try:
            with self._scope:
                if self.holding is not None:
                    await self.holding.take()
                await self._call(limiter)
                return Ended(self.job, Status.SUCCEEDED)
            return Ended(self.job, Status.ABORTED, self._aborted) if self._aborted else None
        except BaseException as error:  # SystemExit, a stray CancelledError: user code must not end the worker
            if anyio.current_effective_deadline() == -math.inf:
                raise  # the worker itself is being cancelled
            return self._failed(error)

    async def _call(self, limiter: anyio.CapacityLimiter) -> None:
        args = () if self.context is None else (self.context,)
        if self.task.is_async:
            await self.task.func(*args, **self.job.task_kwargs)
        else:
            error = await anyio.to_thread.run_sync(_caught, self.task.func, args, self.job.task_kwargs, limiter=limiter)
            if error is not None:
                raise error

    def _failed(self, error: BaseException) -> Outcome:
        if isinstance(error, Snoozed):
            return Again(self.job, error.delay, uncharged=True)
        if isinstance(error, JobSkipped):
            return Ended(self.job, Status.CANCELLED, str(error))
        text = describe(error)
        if isinstance(error, JobAborted):
            return Ended(self.job, Status.ABORTED, text)
        strategy = self.task.retry_strategy
        try:
            decision = strategy.get_retry_decision(exception=error, job=self.job) if strategy else None
        except Exception as mistake:
            return Ended(
                self.job, Status.FAILED, f"{text}\nand its retry strategy failed:\n{describe(mistake)}"[-MAX_ERROR:]
            )
        if decision is None:
            return Ended(self.job, Status.FAILED, text)
        return Again(self.job, decision.retry_in, text)


def describe(error: BaseException) -> str:
    """The traceback as text that can be stored, its end if it is long; an exception may be too broken to print itself."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__") == __name__:
        frames = frames.tb_next  # the way through the worker tells a reader nothing
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        text = f"{type(error).__name__} (which cannot be printed)"
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()[-MAX_ERROR:].strip()


def _caught(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> BaseException | None:
    """As a value: StopIteration and SystemExit do not survive the way out of a thread."""
    try:
        function(*args, **kwargs)
    except BaseException as error:
        return error
    return None
