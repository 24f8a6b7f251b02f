"""What a task can ask about its own run, with `pass_context=True`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from inturn.model import Job

if TYPE_CHECKING:
    from inturn.locks.lease import AsyncLease
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
    leases: tuple[AsyncLease, ...] = ()  # on the task's resources, in their order; each has a `fence`

    @property
    def fence(self) -> int:
        """Rises with every start of a job: a store that refuses a lower one is safe from a paused former run."""
        return self.job.fence

    def should_abort(self) -> bool:
        """Whether the run should end early; `abort_reason` says why. A sync task asks now and then."""
        return self.abort_reason is not None
