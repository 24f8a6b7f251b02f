"""Tasks of every app, in the namespace `builtin`. The only one deletes old jobs.

app.configure_task("builtin:inturn.builtin_tasks.remove_old_jobs").defer(max_hours=72)
"""

from __future__ import annotations

from typing import Protocol, cast

from inturn.control.jobs import Jobs
from inturn.tasks.blueprint import Blueprint
from inturn.tasks.context import JobContext

REMOVE_OLD_JOBS = (
    "inturn.builtin_tasks.remove_old_jobs"  # stored with jobs, so keep it if the module moves
)


class HasJobs(Protocol):
    job_manager: Jobs


def builtin_tasks() -> Blueprint:
    """Return a new blueprint for each app.

    Apps cannot share one, because a task is deferred through the app it was last added to.
    """
    builtin = Blueprint()
    builtin.task(name=REMOVE_OLD_JOBS, pass_context=True, queue="builtin")(remove_old_jobs)
    return builtin


async def remove_old_jobs(
    context: JobContext,
    *,
    max_hours: float,
    queue: str | None = None,
    remove_failed: bool = False,
    remove_cancelled: bool = False,
    remove_aborted: bool = False,
) -> None:
    """Delete succeeded jobs that ended more than `max_hours` ago, and optionally others.

        app.configure_task("builtin:inturn.builtin_tasks.remove_old_jobs").defer(max_hours=72)

    The worker's option `keep_history` needs no job and is much cheaper, because it drops whole
    days.
    """
    app = cast(HasJobs, context.app)
    await app.job_manager.delete_old_jobs_async(
        max_hours, queue, remove_failed, remove_cancelled, remove_aborted
    )
