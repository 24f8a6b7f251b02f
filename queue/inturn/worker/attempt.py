"""One attempt at a job, from slot to outcome. Exceptions from user code never propagate."""

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.to_thread

from inturn.errors import DatabaseUnavailable, JobAborted, JobSkipped, JobTimeout, Snoozed
from inturn.logs import running_job
from inturn.model import Again, AttemptDetails, Committed, Ended, Job, Outcome, Status
from inturn.tasks.context import JobContext
from inturn.tasks.retry import count_attempts
from inturn.tasks.task import Task
from inturn.worker import result_json
from inturn.worker.error_text import MAX_CHARACTERS, describe, storable
from inturn.worker.middleware_chain import MiddlewareChain
from inturn.worker.slots import Slot, close_scopes, is_cancelled

# How many attempts an outage may cost a task without `retry`. After that, the task itself may be
# breaking the connection.
MOST_OUTAGES = 5
OUTAGE_PAUSE = timedelta(seconds=1)
SHIELDED_SECONDS = 0.01  # before code inside a shield is cancelled again
OVERDUE_SECONDS = 1.0  # how long a run may overrun its timeout before it is logged

# One entry for each fork that made this process. A system call per job would cost more.
_forks: list[int] = []
os.register_at_fork(after_in_child=lambda: _forks.append(os.getpid()))


class Abandoned(BaseException):
    """Raised if the worker does not wait for the task: it must not start, or its thread runs on."""


class AttemptLocks(Protocol):
    """The locks on a task's resources, as an attempt sees them; see `resources`."""

    async def take(self) -> None:
        """Take all locks, or raise an error that ends, snoozes or skips the job."""

    async def settle(self, outcome: Outcome | None) -> Outcome | None:
        """Return the final outcome of an attempt whose code has ended with `outcome`."""


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """A job that a worker runs, and the state that determines how it ends.

    The stages of `perform`, in order: take resources, start the timer, run the task, judge the
    outcome. The state records what happens during them: the job is aborted or times out, or its own
    transaction commits its end or loses the database.
    """

    job: Job
    task: Task[..., Any]
    _chain: MiddlewareChain | None  # the middleware around the task, if there is any
    _is_ours: Callable[[], bool]  # True only if certain; called from any thread
    _check_lock: Callable[[str], None]  # raises if a retry cannot move the job to this lock
    context: JobContext | None = None  # only if the task, or a middleware, asks for it
    held_locks: AttemptLocks | None = None  # only if the task needs resources
    slot: Slot | None = None  # while it runs
    _thread_scope: anyio.CancelScope | None = None  # of a sync task
    _deadline: float | None = None  # while it runs, if it has a timeout
    _timer: asyncio.TimerHandle | None = None
    # The state:
    _has_begun: bool | None = None  # False: it was too late to call the task
    _aborted: str | None = None  # why
    _is_given_back: bool = False  # its run was ended, but not its job
    _is_abandoned: bool = False
    _timed_out: bool = False
    _is_overdue: bool = False  # it overruns its deadline, and this was logged
    lost_database: bool = False  # in its own transaction, which is rolled back
    committed: bool = False  # by its own transaction: the job has ended, no matter what follows
    _committed_result: str | None = None

    # ------------------------------------------------------------------ while the task runs

    @property
    def must_wait(self) -> bool:
        """Return True if the task was not called because the job may be another worker's now."""
        return self._has_begun is False and not self._is_given_back and self._aborted is None

    def note_committed(self, result: str | None) -> None:
        """Note that the task's own transaction has committed the end of the job, and its result."""
        self.committed = True
        self._committed_result = result

    def end_run(self, reason: str) -> None:
        """Stop the code. The job does not end, unless the code ends it anyway.

        An async task is cancelled. A sync one can only be asked to end.
        """
        if not self._is_given_back:
            self._is_given_back = True
            self._interrupt(reason)

    def abort(self, reason: str) -> None:
        """End the job for good."""
        if self._aborted is None:
            self._aborted = reason
            self._interrupt(reason)

    def abandon(self) -> None:
        """Stop waiting for code that keeps running after it was told to end, such as a thread.

        The job has not ended, whatever that code still does.
        """
        self._is_abandoned = True
        if self.slot is not None:
            self.slot.shield.shield = False
        if self._thread_scope is not None:
            self._thread_scope.cancel()

    def _interrupt(self, reason: str) -> None:
        if self.context is not None:
            self.context.request_abort(reason)
        if self.slot is not None:
            self._cancel_once(self.slot)

    def _cancel_once(self, slot: Slot) -> None:
        """Cancel the code once, at the first await that no shield protects.

        A scope cancels again at each await, so `finally` blocks could not await anything. To
        prevent that, the inner scope then shields the code.
        """
        if self.slot is None or self._is_abandoned or self._thread_scope is not None:
            return  # it has ended, or a thread runs it
        before = slot.task.cancelling()
        slot.shield.shield = False
        slot.scope.cancel()
        was_cancelled = slot.task.cancelling() > before
        slot.shield.shield = True
        if not was_cancelled:  # the code is inside its own shield, or called us
            asyncio.get_running_loop().call_later(SHIELDED_SECONDS, self._cancel_once, slot)

    def enforce_deadline(self) -> bool:
        """Ask the run to end if it has timed out. May be called from any thread.

        Return True if the run continues and should be logged, which happens once per run.
        """
        deadline, now = self._deadline, time.monotonic()
        if deadline is None or now < deadline:
            return False
        # The timer does the same, unless the event loop is blocked.
        self._timed_out = True
        if self.context is not None and self.context.abort_reason is None:
            self.context.request_abort(str(self._timeout_error()))
        if self._is_overdue or now <= deadline + OVERDUE_SECONDS:
            return False
        self._is_overdue = True
        return True

    # ------------------------------------------------------------------ the stages

    async def perform(
        self, slot: Slot, limiter: anyio.CapacityLimiter, max_result: int
    ) -> Outcome | None:
        """Run the task. Return the outcome, or None if the job was given back or must wait."""
        forks = len(_forks)
        outcome: Outcome | None = None
        self.slot = slot
        running_job.set(self.job)
        try:
            if self.held_locks is not None:
                await self.held_locks.take()
            if self.job.timeout is not None:
                self._start_timer(self.job.timeout.total_seconds())
            try:
                value = await self._call_task(limiter)
            finally:  # now, since a cancelled one looks as if the worker were cancelled
                _end_copy(forks)
                left_open = close_scopes(slot.shield, slot.task)
            if left_open:
                raise RuntimeError("the task left a cancel scope or a task group open")
            outcome = self._judge_value(value, max_result)
        except Abandoned:
            pass
        # SystemExit or a stray CancelledError: user code must not end the worker.
        except BaseException as error:
            if not self._was_stopped() and is_cancelled():
                raise  # the worker itself is cancelled
            outcome = self._judge_error(error)
        finally:
            self._leave_slot()
        if self._has_begun is not False:
            return outcome
        # No matter what middleware or a timeout made of it, the task was not called.
        return None if self._aborted is None else Ended(self.job, Status.ABORTED, self._aborted)

    def _start_timer(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._time_out)

    def _leave_slot(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.slot = self._deadline = None

    def _time_out(self) -> None:
        self._timed_out = True
        self._interrupt(str(self._timeout_error()))

    def _was_stopped(self) -> bool:
        """Return True if the worker has told the code to end."""
        return self._is_given_back or self._aborted is not None or self._timed_out

    def _timeout_error(self) -> JobTimeout:
        return JobTimeout(f"the run took longer than its timeout of {self.job.timeout}")

    def _call_task(self, limiter: anyio.CapacityLimiter) -> Awaitable[Any]:
        if self._chain is None or self.context is None:
            # The slot has just asked whether the job is ours. Ask again only after a wait.
            has_waited = self.held_locks is not None or not self.task.is_async
            return self._call(limiter, self._begin if has_waited else self.task.func)
        return self._chain.call(self.task, self._begin, self.context, partial(self._call, limiter))

    def _call(self, limiter: anyio.CapacityLimiter, function: Callable[..., Any]) -> Awaitable[Any]:
        args = (self.context,) if self.task.pass_context else ()
        if self.task.is_async:
            running: Awaitable[Any] = function(*args, **self.job.task_kwargs)
            return running
        return self._call_in_thread(limiter, function, args)

    def _begin(self, *args: Any, **kwargs: Any) -> Any:
        """Call the task, unless the worker may have been suspended before this point."""
        if not self._has_begun:
            self._has_begun = self._is_ours() and not self._is_given_back
            if not self._has_begun:
                raise Abandoned
        return self.task.func(*args, **kwargs)

    async def _call_in_thread(
        self, limiter: anyio.CapacityLimiter, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        has_ended = False
        # Shielded: only `abandon` ends the wait for a thread.
        with anyio.CancelScope(shield=True) as self._thread_scope:
            error, value, ended_at = await anyio.to_thread.run_sync(
                _catch,
                function,
                args,
                self.job.task_kwargs,
                limiter=limiter,
                abandon_on_cancel=True,
            )
            has_ended = True
        if not has_ended:
            raise Abandoned
        self._thread_scope = None
        if self._deadline is not None and ended_at < self._deadline:
            self._timed_out = False  # the event loop was blocked until after the deadline
        if self._was_stopped() and self.slot is not None:
            self._cancel_once(self.slot)  # the middleware may go on
        if error is not None:
            raise error
        # It is awaitable if, for example, a decorator has wrapped an `async def` in a `def`.
        return await value if inspect.isawaitable(value) else value

    # ------------------------------------------------------------------ the last stage: judging

    def _judge_value(self, value: object, max_result: int) -> Outcome | None:
        """Return the outcome of a task that returned this value."""
        if self.committed:
            result_json.check_stored(self.job, value, self._committed_result, max_result)
            return Committed(self.job)
        # It was stopped but continued, so it may not have done all of its work.
        if self._timed_out:
            return self._judge_error(self._timeout_error())
        result = None if value is None else result_json.encode(self.job, value, max_result)
        return Ended(self.job, Status.SUCCEEDED, None, result)

    def _judge_cancellation(self) -> Outcome | None:
        """Return the outcome of a cancelled task, or None if it was only given back."""
        if self.committed:
            return Committed(self.job)
        if self._aborted is not None:
            return Ended(self.job, Status.ABORTED, self._aborted)
        return self._judge_error(self._timeout_error()) if self._timed_out else None

    def _judge_error(self, error: BaseException) -> Outcome | None:
        """Return the outcome of a task that raised this, or None if it was only given back."""
        if isinstance(error, asyncio.CancelledError) and self._was_stopped():
            return self._judge_cancellation()
        if self._timed_out and self._aborted is None and not isinstance(error, JobTimeout):
            # It raised this because the timeout stopped it, or after the timeout.
            timeout = self._timeout_error()
            timeout.__cause__ = error
            error = timeout
        outcome = self._find_outcome(error)
        if outcome is None:
            return None
        details = AttemptDetails(error, count_attempts(self.task.retry_strategy))
        return outcome._replace(details=details)

    def _find_outcome(self, error: BaseException) -> Outcome | None:
        if self.committed:
            return Committed(self.job, describe(error))
        inner = error
        while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
            inner = inner.exceptions[0]
        if isinstance(inner, Snoozed | JobSkipped | JobAborted):
            error = inner  # a child of a task group has asked for it
        if isinstance(error, Snoozed):
            return Again(self.job, error.delay, uncharged=True)
        if isinstance(error, JobSkipped):
            return Ended(self.job, Status.CANCELLED, storable(str(error)))
        if isinstance(error, JobAborted) and self._is_given_back and self._aborted is None:
            return None  # it ended its run, as told, but not its job
        text = describe(error)
        if isinstance(error, JobAborted):
            return Ended(self.job, Status.ABORTED, text)
        if self._aborted is not None:  # an operator wants it to end, so it is not retried
            return Ended(self.job, Status.FAILED, text)
        return self._judge_failure(error, text)

    def _judge_failure(self, error: BaseException, text: str) -> Outcome:
        """Return the outcome of a failed attempt: a retry, or the end of the job."""
        strategy = self.task.retry_strategy
        if strategy is None:
            # An outage is not the task's failure.
            is_outage = self.lost_database and isinstance(error, DatabaseUnavailable)
            if is_outage and self.job.attempts < MOST_OUTAGES:
                return Again(self.job, OUTAGE_PAUSE, text)
            return Ended(self.job, Status.FAILED, text)
        try:
            d = strategy.get_retry_decision(exception=error, job=self.job)
            if d is None:
                return Ended(self.job, Status.FAILED, text)
            d.check(self.job)
            if d.lock is not None:
                self._check_lock(d.lock)
            return Again(
                self.job, d.retry_in or timedelta(0), text, d.retry_at, d.priority, d.queue, d.lock
            )
        except Exception as mistake:
            both = f"{text}\nand its retry strategy failed:\n{describe(mistake)}"
            return Ended(self.job, Status.FAILED, both[-MAX_CHARACTERS:])


def _catch(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[BaseException | None, Any, float]:
    """Return what the function raised, what it returned, and when.

    The error is returned because StopIteration and SystemExit cannot be raised out of a thread.
    """
    forks = len(_forks)
    try:
        value = function(*args, **kwargs)
        return None, value, time.monotonic()
    except BaseException as error:
        return error, None, time.monotonic()
    finally:
        _end_copy(forks)


def _end_copy(forks: int) -> None:
    """End this process if the task, which began with so many `forks`, returned in a child.

    The copy is not a worker, but would write to its parent's connections.
    """
    if len(_forks) > forks:
        os._exit(1)
