"""Adds the running job to the log records of your code. See docs/logging.md."""

import logging
from contextvars import ContextVar

from inturn.model import Job

running_job: ContextVar[Job | None] = ContextVar("inturn_running_job", default=None)


def describe_job(job: Job) -> dict[str, object]:
    """Return a job's fields for log records."""
    return {
        "job_id": job.id,
        "task": job.task_name,
        "queue": job.queue,
        "lock": job.lock,
        **({"locks": [*job.locks]} if job.locks else {}),
        "attempt": job.attempts + 1,
        "fence": job.fence,
    }


class JobFilter(logging.Filter):
    """Adds the running job to each record: `job_id`, `task`, `queue`, `lock`, `attempt`, `fence`.

    Add it to handlers, not loggers: a logger's filter does not see records of other loggers.

        import logging

        handler = logging.StreamHandler()
        handler.addFilter(JobFilter())
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields that the record does not have yet. Return True."""
        job = running_job.get()
        if job is not None:
            for name, value in describe_job(job).items():
                record.__dict__.setdefault(name, value)
        return True
