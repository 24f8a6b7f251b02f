"""The results of Django's task framework, read from jobs."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from inturn.django.tasks_api import (
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from inturn.model import Status, StoredJob

STATUSES = {
    Status.DOING: TaskResultStatus.RUNNING,
    Status.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
    Status.ABORTED: TaskResultStatus.FAILED,
}
UNKNOWN = dict.fromkeys(("enqueued_at", "started_at", "finished_at"))
FRAME = '  File "'
RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)  # "shop.SoldOut: no parcels"


def make_result(task: Any, job_id: int, **fields: Any) -> Any:
    """Return a result with these fields. Omitted ones are not known yet."""
    known = UNKNOWN | {"errors": [], "worker_ids": []} | fields
    return TaskResult(task=task, id=str(job_id), last_attempted_at=known["started_at"], **known)


def read_result(job: StoredJob, backend: str, defaults: Mapping[str, Any]) -> Any:
    """Return the result of a stored job. Raise TaskResultDoesNotExist if its task is not Django's.

    The database keeps the time and worker of the last attempt only, so `started_at` is its start,
    and each of `worker_ids` is its worker.
    """
    started = job.attempts + (job.status == Status.DOING)
    status = STATUSES.get(Status(job.status), TaskResultStatus.READY)
    result = make_result(
        _find_task(job, backend, defaults),
        job_id=job.id,
        args=job.task_kwargs["args"],
        kwargs=job.task_kwargs["kwargs"],
        backend=backend,
        status=status,
        enqueued_at=_localize(job.created_at),
        started_at=None if job.status == Status.CLAIMED else _localize(job.started_at),
        finished_at=_localize(job.finished_at),
        errors=[_read_error(each) for each in job.errors],
        worker_ids=[str(job.worker_id)] * started,
    )
    if status == TaskResultStatus.SUCCESSFUL:
        set_fields(result, _return_value=job.result)
    return result


def _find_task(job: StoredJob, backend: str, defaults: Mapping[str, Any]) -> Any:
    """Return the task with the options of the job, as it was enqueued."""
    try:
        task = import_string(job.task_name)
    except (ImportError, TypeError, ValueError):  # the last two: no module can have this name
        task = None
    if not isinstance(task, Task) or job.task_kwargs.keys() != {"args", "kwargs"}:
        raise TaskResultDoesNotExist(str(job.id))
    changes = {"priority": job.priority, "queue_name": job.queue, "backend": backend}
    if not job.attempts:
        changes["run_after"] = _localize(job.scheduled_at)  # a retry writes another time there
    if job.lock != defaults.get("lock"):
        changes["lock"] = job.lock
    try:
        return task.using(**changes)
    except InvalidTask:  # the job has moved to a queue that the backend does not have
        return task


def _localize(moment: datetime | None) -> datetime | None:
    """Return a time as Django has it, which is naive without USE_TZ."""
    if moment is None or settings.USE_TZ:
        return moment
    naive: datetime = timezone.make_naive(moment)
    return naive


def _read_error(error: Mapping[str, Any]) -> Any:
    """Read the class of the exception from the text, where it follows the last frame."""
    text = str(error.get("error"))
    _, frame, end = text.rpartition(FRAME)
    named = RAISED.search(end) if frame else None
    path = named[1] if named else "Exception"
    return TaskError(
        exception_class_path=path if "." in path else f"builtins.{path}", traceback=text
    )


def set_fields(result: Any, **changes: Any) -> None:
    """Change a result, although it is frozen."""
    for name, value in changes.items():
        object.__setattr__(result, name, value)  # as Django's own backends do
