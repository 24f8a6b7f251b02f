"""What a type checker knows of the options of tasks and jobs: the one list of each, for `task` and for `configure`."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from inturn.tasks.middleware import TaskMiddleware
from inturn.tasks.resources import OnBusyName, Resource
from inturn.tasks.retry import BaseRetryStrategy

Retry = bool | int | BaseRetryStrategy
OnRetryName = Literal["hold", "release"]
OnFailureName = Literal["continue", "halt"]
OnConflictName = Literal["raise", "skip", "replace"]


class TaskOptions(TypedDict, total=False):
    """The options of a task, for decorators of your own.

    def nightly(**options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]:
        return app.task(queue="night", **options)

    @nightly(retry=3)
    def tidy_up() -> None: ...
    """

    name: str | None
    aliases: Sequence[str] | None
    retry: Retry
    queue: str
    priority: int
    lock: str | None
    queueing_lock: str | None
    on_conflict: OnConflictName
    on_retry: OnRetryName
    on_failure: OnFailureName
    timeout: float | timedelta | None
    task_middleware: Sequence[TaskMiddleware] | None
    resources: Sequence[Resource]
    on_busy: OnBusyName
    busy_seconds: float | None


class JobOptions(TypedDict, total=False):
    """The options of a job, for wrappers of your own.

    def urgent(task: Task[P, R], **options: Unpack[JobOptions]) -> Deferrer[P]:
        return task.configure(priority=100, **options)

    urgent(write, lock="alphabet").defer("a")
    """

    lock: str | None
    queueing_lock: str | None
    on_conflict: OnConflictName | None
    schedule_at: datetime | None
    schedule_in: timedelta | Mapping[str, float] | None
    queue: str | None
    priority: int | None
    on_retry: OnRetryName | None
    on_failure: OnFailureName | None
    timeout: float | timedelta | None
    connection: object


class ScheduleOptions(JobOptions, total=False):
    """Of the jobs of a periodic task; each is deferred by a worker, in no transaction of yours."""

    task_kwargs: Mapping[str, Any] | None
