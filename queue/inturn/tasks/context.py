"""What a task with `pass_context=True` can find out about its job and do with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import psycopg

from inturn import arguments
from inturn.errors import BadArgument, ConfigurationError, Snoozed, kind_of
from inturn.model import BatchCounts, Job, ProgressReport
from inturn.tasks.headers import select_own
from inturn.whole_numbers import HIGHEST_ID

if TYPE_CHECKING:
    from inturn.tasks.task import Task, TaskCollection

LONGEST_TEXT = 200  # characters


class JobTransaction(
    AbstractContextManager[psycopg.Connection[Any]],
    AbstractAsyncContextManager[psycopg.AsyncConnection[Any]],
    Protocol,
):
    """The result of `context.transaction()`.

    Use it with `with` in a sync task and with `async with` in an async one. Set `result` in the
    block to store the job's result with the commit.
    """

    result: Any


class HeldResource(Protocol):
    """The lock on one of the task's `resources`, held while the task runs.

    See `docs/locks.md` for its methods.
    """

    @property
    def name(self) -> str: ...

    @property
    def fence(self) -> int | None:
        """A number that rises with every holder.

        A store that refuses lower numbers is protected from a paused holder that writes late.
        """

    @property
    def lost(self) -> Any:
        """True once another holder may have the lock.

        To wait for that, use `await lost.wait()` in an async task and `lost.wait()` in a sync one.
        """

    @property
    def valid(self) -> bool:
        """True if the lock is certainly still held."""

    def ensure(self) -> None:
        """Raise LockLost unless the lock is certainly still held."""


@dataclass(slots=True)
class JobContext:
    """The first argument of a task declared with `pass_context=True`.

        @app.task(pass_context=True)
        def export(context: JobContext, rows: int) -> None:
            for _ in range(rows):
                if context.should_abort():
                    raise JobAborted(context.abort_reason)

    `additional_context` is the worker's option of that name. `leases` are the locks on the task's
    `resources`, in the same order.
    """

    app: TaskCollection
    task: Task[Any, Any]
    job: Job
    worker_name: str = "worker"
    worker_queues: tuple[str, ...] | None = None
    start_timestamp: float = field(default_factory=time.time)  # seconds since 1970
    additional_context: dict[str, Any] = field(default_factory=dict)
    abort_reason: str | None = None
    leases: tuple[HeldResource, ...] = ()
    # The worker's part of `transaction`.
    begin: Callable[[], JobTransaction] | None = field(default=None, repr=False)
    # The worker's part of `progress`.
    note_progress: Callable[[ProgressReport], None] | None = field(default=None, repr=False)

    @property
    def batch(self) -> BatchCounts | None:
        """If this job is a batch's callback, how the batch's jobs ended, else None.

        A job of a batch finds the batch's number in `job.batch_id`, and can add jobs to it.
        """
        return self.job.batch

    @property
    def headers(self) -> dict[str, Any]:
        """Values that travel with the job beside its arguments, for middleware.

            async def log_tenant(call_next, context, worker):
                print(context.job.id, "is for", context.headers.get("tenant"))
                return await call_next()

            write.configure(headers={"tenant": "acme"}).defer("a")

        They are JSON of at most 4,096 bytes. A retry keeps them. The dict is a copy.
        """
        return select_own(self.job.headers)

    @property
    def fence(self) -> int:
        """A number that rises with every start of a job.

        A store that refuses lower numbers is protected from an earlier run that was paused.
        """
        return self.job.fence

    def transaction(self) -> JobTransaction:
        """Return a transaction in which the job ends.

        Your writes on its connection and the end of the job commit together.

            @app.task(pass_context=True)
            async def pay(context: JobContext, order: int) -> None:
                async with context.transaction() as connection:  # in a sync task: with
                    await connection.execute("UPDATE orders SET paid = true WHERE id = %s", [order])

        If another worker has taken over the job, everything is rolled back and JobLost is raised.
        After the block, the job has ended and its lane continues. To store a result, set the
        transaction's `result` in the block. See docs/exactly-once.md.
        """
        if self.begin is None:
            raise ConfigurationError(
                "No worker runs this job, so there is no transaction to end it in. Use a worker"
            )
        return self.begin()

    def progress(self, done: int, total: int | None = None, text: str | None = None) -> None:
        """Report progress. `queue jobs show` and SQL show it, even after the job's end.

            @app.task(pass_context=True)
            def convert(context: JobContext, pages: int) -> None:
                for page in range(pages):
                    context.progress(page, pages, f"page {page + 1}")

        done, total: how much is done, and how much there is to do, if known.
        text: what the task is doing now. Only the first 200 characters are stored.

        Call it as often as you like, from any thread of the task. See docs/progress.md.
        """
        report = ProgressReport(
            self.job.id,
            self.job.fence,
            arguments.check_whole("done", done, 0, HIGHEST_ID),
            None if total is None else arguments.check_whole("total", total, 0, HIGHEST_ID),
            None if text is None else _check_text(text),
        )
        if self.note_progress is not None:  # else no worker runs the job
            self.note_progress(report)

    def should_abort(self) -> bool:
        """Return True if the attempt should end early; see `abort_reason`.

        Sync tasks should check it regularly.
        """
        return self.abort_reason is not None

    def request_abort(self, reason: str) -> None:
        """Make `should_abort` return True. The worker calls it; you can call it in tests."""
        self.abort_reason = reason

    def provide_leases(self, leases: tuple[HeldResource, ...]) -> None:
        """Give the task the locks on its `resources`. The worker calls it."""
        self.leases = leases

    def snooze(self, schedule_in: timedelta | Mapping[str, float]) -> NoReturn:
        """End this attempt now and run the job again after this time. The attempt does not count.

        Until then, `on_retry` determines whether the job's lane waits or continues. The method
        raises `Snoozed`, which is not an `Exception`. Do not catch it.

            @app.task(pass_context=True)
            async def restock(context: JobContext, item: str) -> None:
                if not await supplier.is_open():
                    context.snooze({"minutes": 30})
        """
        raise Snoozed(max(timedelta(0), arguments.check_wait("schedule_in", schedule_in)))


def _check_text(text: object) -> str:
    """Return the text, cut if too long: it may be data that the task does not control."""
    if not isinstance(text, str):
        raise BadArgument("text", f"is {kind_of(text)}. Pass text or None")
    text = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
    arguments.check_text("text", text)
    return text
