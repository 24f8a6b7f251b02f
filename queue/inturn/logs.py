"""Which job runs, for the lines that your own code logs. See docs/logging.md."""

import logging
from contextvars import ContextVar

from inturn.model import Job

running_job: ContextVar[Job | None] = ContextVar("inturn_running_job", default=None)


def describe_job(job: Job) -> dict[str, object]:
    """Return the fields of a job, as the records of the log have them."""
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

    Add it to your handlers. A filter of a logger would not see what other loggers log.

        import logging

        handler = logging.StreamHandler()
        handler.addFilter(JobFilter())
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields, unless the record has its own. Return True."""
        job = running_job.get()
        if job is not None:
            for name, value in describe_job(job).items():
                record.__dict__.setdefault(name, value)
        return True
