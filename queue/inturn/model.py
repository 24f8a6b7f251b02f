"""The values that travel: what is deferred, what is claimed, how it ended. Standard library only."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID


class Status(StrEnum):
    """Where a job is. The first four are live, the others history."""

    TODO = "todo"
    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    DOING = "doing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job about to be deferred; its arguments are JSON text already, checked."""

    task_name: str
    args: str
    queue: str
    priority: int
    lock: str | None
    schedule_at: datetime | None
    schedule_in: timedelta | None


@dataclass(frozen=True, slots=True)
class Job:
    """A job that a worker has claimed. `attempts` counts the earlier ones: the first run sees 0."""

    id: int
    claim_id: UUID
    fence: int
    task_name: str
    queue: str
    lock: str | None
    priority: int
    attempts: int
    scheduled_at: datetime | None
    task_kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A job whose code has ended for good."""

    job: Job
    status: Status
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """A job whose code has ended and that waits for its next attempt."""

    job: Job
    delay: timedelta
    error: str | None = None


Outcome = Ended | Again
