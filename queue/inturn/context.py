"""What a task can ask about its own run, with `pass_context=True`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from inturn import arguments
from inturn.errors import Snoozed
from inturn.model import Job

if TYPE_CHECKING:
    from inturn.tasks import Blueprint, Task


@dataclass(slots=True)
class JobContext:
    """The first argument of a task declared with `pass_context=True`."""

    app: Blueprint
    task: Task[Any, Any]
    job: Job
    worker_name: str
    worker_queues: tuple[str, ...] | None
    start_timestamp: datetime
    additional_context: dict[str, Any] = field(default_factory=dict)
    abort_reason: str | None = None

    @property
    def fence(self) -> int:
        """Rises with every start of a job: a store that refuses a lower one is safe from a paused former run."""
        return self.job.fence

    def should_abort(self) -> bool:
        """Whether the run should end early; `abort_reason` says why. A sync task asks now and then."""
        return self.abort_reason is not None

    def snooze(self, schedule_in: timedelta | Mapping[str, float]) -> NoReturn:
        """End this run here; the job runs again so much later, and this attempt does not count.

        Until then its lane waits or goes on, as `on_retry` says. It raises `Snoozed`, which is no `Exception`: do not catch it.

            if not await supplier.is_open():
                context.snooze({"minutes": 30})
        """
        raise Snoozed(max(timedelta(0), arguments.check_wait("schedule_in", schedule_in)))
