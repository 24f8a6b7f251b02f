"""Tasks of every app, in the namespace `builtin`. They delete old jobs, and verify what happened.

app.configure_task("builtin:inturn.builtin_tasks.remove_old_jobs").defer(max_hours=72)
app.configure_task("builtin:inturn.builtin_tasks.verify").defer(hours=24)
"""

from dataclasses import asdict
from datetime import timedelta
from typing import Any, Protocol, cast

from inturn.control.jobs import Jobs
from inturn.operations.reading.verify import Verification
from inturn.tasks.blueprint import Blueprint
from inturn.tasks.context import JobContext

# Names are stored with jobs, so keep them if the module moves.
REMOVE_OLD_JOBS = "inturn.builtin_tasks.remove_old_jobs"
VERIFY = "inturn.builtin_tasks.verify"  # also in last_verification.sql
KEPT = 100  # violations in a result


class HasJobs(Protocol):
    job_manager: Jobs

    async def verify_async(self, since: timedelta) -> Verification: ...


def builtin_tasks() -> Blueprint:
    """Return a new blueprint for each app.

    Apps cannot share one, because a task is deferred through the app it was last added to.
    """
    builtin = Blueprint()
    builtin.task(name=REMOVE_OLD_JOBS, pass_context=True, queue="builtin")(remove_old_jobs)
    builtin.task(name=VERIFY, pass_context=True, queue="builtin")(verify)
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


async def verify(context: JobContext, *, hours: float = 25, timestamp: int = 0) -> dict[str, Any]:
    """Verify the jobs that ended in the last hours. The result counts the violations.

        verify = app.find_task("builtin:inturn.builtin_tasks.verify")
        app.periodic(cron="0 3 * * *")(verify)

    The dashboard and the metrics show the last result of a schedule.
    """
    found = await cast(HasJobs, context.app).verify_async(timedelta(hours=hours))
    return {
        "jobs": found.jobs,
        "violations": found.violations,
        "allowed": sum(each.jobs for each in found.allowed),
        "unsure": sum(each.jobs for each in found.unsure),
        "broken": [asdict(each) for each in found.broken[:KEPT]],
    }
