"""The part of `app.job_manager` that lists and counts jobs."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from inturn.arguments import check_choice
from inturn.control.twins import Control, blocking, in_loop, outside_loop
from inturn.model import Status, StoredJob
from inturn.operations import Operation
from inturn.operations.changes.jobs import (
    LISTED,
    JobFilter,
    StatusCounts,
    count_jobs_by,
    list_jobs,
    list_stalled_jobs,
)


class JobLists(Control):
    """Lists and counts jobs, in a bounded search.

    `list_jobs` returns the newest 1,000 unless you set a limit. With any filter but an id, it
    searches the newest 10,000 live jobs, and further where an index helps: for the jobs of a lane
    or a batch, and for a rare status. It also searches the newest 10,000 ended jobs, or the
    newest 10,000 failed ones if you ask for those. The counts search the same jobs.
    """

    @blocking
    def list_jobs(
        self,
        id: int | None = None,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
        queueing_lock: str | None = None,
        worker_id: UUID | str | None = None,
        limit: int = LISTED,
        batch: int | None = None,
        group: str | None = None,
        before_id: int | None = None,
    ) -> Operation[list[StoredJob]]:
        """Return the newest `limit` jobs that match, oldest first.

            [job.id for job in app.job_manager.list_jobs(lock="alphabet", status="failed")]

        For the next page, pass the id of the oldest job of this one as `before_id`.
        """
        which = JobFilter(
            statuses=check_statuses(status),
            queue=queue,
            task=task,
            lock=lock,
            id=id,
            queueing_lock=queueing_lock,
            worker_id=worker_id,
            batch=batch,
            group=group,
            before_id=before_id,
        )
        return list_jobs(which, limit)

    list_jobs_async = in_loop(list_jobs)

    @blocking
    def list_queues(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> Operation[list[StatusCounts]]:
        """Return each queue with the number of its jobs in each status.

        It searches the same jobs as `list_jobs`. If it may have missed some, `more` is True, and
        the counts are lower bounds.

        write.defer(letter="a")
        [counts] = app.job_manager.list_queues(task=write.name)
        assert counts["name"] == "default" and counts["todo"] == 1
        assert not counts["more"]
        """
        return count_jobs_by("queue", JobFilter(check_statuses(status), queue, task, lock))

    list_queues_async = in_loop(list_queues)

    @blocking
    def list_tasks(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> Operation[list[StatusCounts]]:
        """Return each task with the number of its jobs in each status."""
        return count_jobs_by("task", JobFilter(check_statuses(status), queue, task, lock))

    list_tasks_async = in_loop(list_tasks)

    @blocking
    def list_locks(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> Operation[list[StatusCounts]]:
        """Return at most 1,000 locks, each with the number of its jobs in each status.

        A job with several locks counts for each.
        To see what holds up a lane, use `app.lanes`.
        """
        return count_jobs_by("lock", JobFilter(check_statuses(status), queue, task, lock))

    list_locks_async = in_loop(list_locks)

    @outside_loop
    @blocking
    def get_stalled_jobs(
        self,
        nb_seconds: float | None = None,
        queue: str | None = None,
        task_name: str | None = None,
        seconds_since_heartbeat: float = 30,
    ) -> Operation[Sequence[StoredJob]]:
        """Return the jobs whose worker has been silent for `seconds_since_heartbeat`.

        With `nb_seconds`, return the jobs that have been running for longer than that, on any
        worker. You need not act on the jobs of silent workers: live workers take them over.
        """
        silent = timedelta(seconds=seconds_since_heartbeat)
        running = None if nb_seconds is None else timedelta(seconds=nb_seconds)
        return list_stalled_jobs(silent, running, queue, task_name)

    get_stalled_jobs_async = in_loop(get_stalled_jobs)


def check_statuses(status: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the statuses to search, or none for any. Raise BadArgument for an unknown one."""
    statuses = (status,) if isinstance(status, str) else tuple(status or ())
    for each in statuses:
        check_choice("status", Status, each)
    return statuses
