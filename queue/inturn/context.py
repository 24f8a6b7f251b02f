"""What a task can ask about its own run, with `pass_context=True`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from inturn import arguments
from inturn.errors import ConfigurationError, Snoozed
from inturn.model import Job

if TYPE_CHECKING:
    from inturn.blueprint import Blueprint
    from inturn.locks.core.lease import AsyncLease
    from inturn.tasks import Task
    from inturn.worker.transaction import Transaction


@dataclass(slots=True)
class JobContext:
    """The first argument of a task declared with `pass_context=True`.

        @app.task(pass_context=True)
        def export(context: JobContext, rows: int) -> None:
            for _ in range(rows):
                if context.should_abort():
                    raise JobAborted(context.abort_reason)

    `additional_context` is what the worker was given under that name; `leases` are those on the task's `resources`.
    """

    app: Blueprint
    task: Task[Any, Any]
    job: Job
    worker_name: str
    worker_queues: tuple[str, ...] | None
    start_timestamp: float  # seconds since 1970
    additional_context: dict[str, Any] = field(default_factory=dict)
    abort_reason: str | None = None
    leases: tuple[AsyncLease, ...] = ()  # on the task's resources, in their order; each has a `fence`
    begin: Callable[[], Transaction] | None = field(default=None, repr=False)  # the worker's; see transaction()

    @property
    def fence(self) -> int:
        """Rises with every start of a job: a store that refuses a lower one is safe from a paused former run."""
        return self.job.fence

    def transaction(self) -> Transaction:
        """A transaction in which the job ends: what is written on its connection, and the job's end, commit together.

            @app.task(pass_context=True)
            async def pay(context: JobContext, order: int) -> None:
                async with context.transaction() as connection:  # in a sync task: with
                    await connection.execute("UPDATE orders SET paid = true WHERE id = %s", [order])

        So effects in this database happen exactly once. If the job was taken over meanwhile, all is rolled back and JobLost
        raised; if the block raises, all is rolled back and the attempt has failed. After the block the job is over and its
        lane goes on: an error is only logged, and what the task returns is not stored.
        """
        if self.begin is None:
            raise ConfigurationError("No worker runs this job, so there is no end of it to commit")
        return self.begin()

    def should_abort(self) -> bool:
        """Whether the run should end early; `abort_reason` says why. A sync task asks now and then."""
        return self.abort_reason is not None

    def snooze(self, schedule_in: timedelta | Mapping[str, float]) -> NoReturn:
        """End this run here; the job runs again so much later, and this attempt does not count.

        Until then its lane waits or goes on, as `on_retry` says. It raises `Snoozed`, which is no `Exception`: do not catch it.

            @app.task(pass_context=True)
            async def restock(context: JobContext, item: str) -> None:
                if not await supplier.is_open():
                    context.snooze({"minutes": 30})
        """
        raise Snoozed(max(timedelta(0), arguments.check_wait("schedule_in", schedule_in)))
