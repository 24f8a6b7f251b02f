"""`app.job_manager`: defer, inspect and change single jobs."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn

from inturn import arguments
from inturn.control.bulk import JobBulks
from inturn.control.job_lists import JobLists
from inturn.control.results import ResultListener
from inturn.control.twins import blocking, in_loop, outside_loop
from inturn.database.connector import Connector
from inturn.model import LIVE, Reason, Status
from inturn.operations import Operation
from inturn.operations.changes import jobs
from inturn.operations.engine import enqueue
from inturn.operations.engine.maintenance import check_connection
from inturn.tasks.deferred import DeferredJob
from inturn.tasks.options import NewJob, R
from inturn.tasks.tracer import Tracer

BY_WORKERS = "Only workers do this: https://github.com/inturn/inturn/blob/main/docs/moving.md"
GONE = {
    "retry_job": "Live workers take over the jobs of dead ones, so delete the task that retries "
    "stalled jobs. To retry a finished job, use retry_job_by_id or retry_job_by_id_async.",
    "listen_for_jobs": "To wait for a job to end, use result or result_async.",
    **dict.fromkeys(
        (
            "fetch_job",
            "finish_job",
            "finish_job_by_id_async",
            "defer_periodic_job",
            "list_jobs_to_abort_async",
            "register_worker",
            "unregister_worker",
            "update_heartbeat",
            "prune_stalled_workers",
        ),
        BY_WORKERS,
    ),
}


class Jobs(JobLists, JobBulks):
    """Inspects and changes jobs. With `connection=`, a change is part of your transaction.

    `by` is the name of the person who makes a change. Without it, `lane_audit` does not record the
    change of a job.

    job_id = write.configure(schedule_in={"hours": 1}).defer(letter="a")
    assert app.job_manager.get_job_status(job_id) == "scheduled"
    assert app.job_manager.cancel_job_by_id(job_id)
    """

    def __init__(self, connector: Connector, tracing: Tracer | None = None) -> None:
        super().__init__(connector)
        self.tracing = tracing
        self._results = ResultListener(connector)

    def __getattr__(self, name: str) -> NoReturn:
        """Name the replacement of a procrastinate method that inturn does not need."""
        instead = f" {GONE[name]}" if name in GONE else ""
        raise AttributeError(f"The job manager has no {name!r}.{instead}")

    @blocking
    def check_connection(self) -> Operation[bool]:
        """Return what `App.check_connection` returns."""
        return check_connection(self._connector.schema)

    check_connection_async = in_loop(check_connection)

    def defer_job(self, job: NewJob, connection: object = None) -> int:
        """Enqueue a job that `make_new_job` made.

        app.job_manager.defer_job(write.configure(lock="alphabet").make_new_job("a"))
        """
        return self.batch_defer_jobs([job], connection)[0]

    async def defer_job_async(self, job: NewJob, connection: object = None) -> int:
        """Like `defer_job`, in an event loop."""
        return (await self.batch_defer_jobs_async([job], connection))[0]

    def batch_defer_jobs(
        self, jobs: Sequence[NewJob[R]], connection: object = None
    ) -> list[DeferredJob[R]]:
        """Enqueue jobs of any tasks and locks in this order, in one statement: all or none.

        jobs = [write.make_new_job("a"), ship.configure(lock="ann").make_new_job(order=1)]
        app.job_manager.batch_defer_jobs(jobs)
        """
        if self.tracing is None:
            return self._connector.run(enqueue.defer_jobs(jobs, self), connection)
        with self.tracing.send(enqueue.check_new(jobs)) as sending:
            return sending.note(
                self._connector.run(enqueue.defer_jobs(sending.jobs, self), connection)
            )

    async def batch_defer_jobs_async(
        self, jobs: Sequence[NewJob[R]], connection: object = None
    ) -> list[DeferredJob[R]]:
        """Like `batch_defer_jobs`, in an event loop."""
        if self.tracing is None:
            return await self._connector.run_async(enqueue.defer_jobs(jobs, self), connection)
        with self.tracing.send(enqueue.check_new(jobs)) as sending:
            return sending.note(
                await self._connector.run_async(enqueue.defer_jobs(sending.jobs, self), connection)
            )

    @blocking
    def get_job_status(self, job_id: int, connection: object = None) -> Operation[Status | None]:
        """Return the status of a job, or None if the job does not exist."""
        return jobs.get_status(job_id)

    get_job_status_async = in_loop(get_job_status)

    @blocking
    def explain(self, job_id: int) -> Operation[list[Reason]]:
        """Return the reasons why a job is not running, in order.

        The only reason `ready` means that it can run.

        app.lanes.pause("alphabet", reason="no paper")
        job_id = write.configure(lock="alphabet").defer(letter="a")
        for each in app.job_manager.explain(job_id):
            print(each.reason, each.detail, each.unblock)
        """
        return jobs.explain(job_id)

    explain_async = in_loop(explain)

    @blocking
    def cancel_job_by_id(
        self,
        job_id: int,
        abort: bool = False,
        delete_job: bool = False,
        connection: object = None,
        *,
        by: str | None = None,
    ) -> Operation[bool]:
        """Cancel a job that is not running. With `abort`, also ask a worker to abort a running one.

        With `delete_job`, delete the job instead. Return False if there was nothing to do.
        """
        if delete_job:
            return (yield from jobs.delete_job(job_id, by))
        if (yield from jobs.get_status(job_id)) not in LIVE:
            return False
        status = yield from jobs.cancel_job(job_id, abort, by)
        return status is Status.CANCELLED or (abort and status is Status.DOING)

    cancel_job_by_id_async = in_loop(cancel_job_by_id)

    @blocking
    def retry_job_by_id(
        self,
        job_id: int,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
        connection: object = None,
        *,
        by: str | None = None,
    ) -> Operation[bool]:
        """Run a finished job again, at its old place, or a scheduled job now.

            job_id = write.configure(schedule_in={"hours": 1}).defer(letter="a")
            assert app.job_manager.retry_job_by_id(job_id, queue="urgent")

        It does not start before `retry_at`. You can also change its `priority`, `queue` or `lock`.
        Return False if the job is already waiting or running.
        """
        arguments.check_moment("retry_at", retry_at)
        if priority is not None:
            arguments.check_priority(priority)
        if queue is not None:
            arguments.check_queue(queue)
        lock = arguments.check_lock(lock)
        self._connector.check_lock(lock)
        return jobs.retry_job_changed(job_id, retry_at, priority, queue, lock, by)

    retry_job_by_id_async = in_loop(retry_job_by_id)

    def result(self, job_id: int, timeout: float | timedelta | None = None) -> Any:
        """Wait until a job has ended, for at most `timeout` seconds, and return its result.

            job_id = report.defer(day=1)
            total = app.job_manager.result(job_id, timeout=60)

        Raise JobFailed, JobCancelled (if it was cancelled or aborted), JobNotFound or
        ResultTimeout, which is a TimeoutError. The result is None if the task returned None or a
        value that cannot be stored, which the worker logs.
        """
        return self._results.wait(job_id, timeout).value()

    async def result_async(self, job_id: int, timeout: float | timedelta | None = None) -> Any:  # noqa: ASYNC109 (as in result)
        """Like `result`, in an event loop."""
        return (await self._results.wait_async(job_id, timeout)).value()

    @outside_loop
    @blocking
    def delete_old_jobs(
        self,
        nb_hours: float,
        queue: str | None = None,
        include_failed: bool = False,
        include_cancelled: bool = False,
        include_aborted: bool = False,
    ) -> Operation[int]:
        """Delete succeeded jobs that ended more than `nb_hours` ago, and optionally others.

            app.job_manager.delete_old_jobs(nb_hours=72, include_failed=True)

        Return the number of deleted jobs. A failed job that halts its lane stays. The worker's
        option `keep_history` is much cheaper, because it drops whole days.
        """
        asked = {
            Status.SUCCEEDED: True,
            Status.FAILED: include_failed,
            Status.CANCELLED: include_cancelled,
            Status.ABORTED: include_aborted,
        }
        return jobs.delete_old_jobs(
            arguments.check_hours(nb_hours), queue, [status for status, yes in asked.items() if yes]
        )

    delete_old_jobs_async = in_loop(delete_old_jobs)
