"""The part of `app.job_manager` that lists and counts jobs."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from inturn.arguments import check_choice
from inturn.control.twins import blocking, in_loop
from inturn.database.connector import Connector
from inturn.errors import ConfigurationError
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


class JobLists:
    """Lists and counts jobs, in a bounded search.

    `list_jobs` returns the newest 1,000 unless you set a limit. With any filter but an id, it
    searches the newest 10,000 live jobs, and further where an index helps: for the jobs of a lane
    or a batch, and for a rare status. It also searches the newest 10,000 ended jobs, or the
    newest 10,000 failed ones if you ask for those. The counts search the same jobs.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

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
        return list_jobs(
            replace(
                _filter(queue, task, status, lock, id, queueing_lock, worker_id, batch, group),
                before_id=before_id,
            ),
            limit,
        )

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
        return count_jobs_by("queue", _filter(queue, task, status, lock))

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
        return count_jobs_by("task", _filter(queue, task, status, lock))

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
        return count_jobs_by("lock", _filter(queue, task, status, lock))

    list_locks_async = in_loop(list_locks)

    def get_stalled_jobs(
        self,
        nb_seconds: float | None = None,
        queue: str | None = None,
        task_name: str | None = None,
        seconds_since_heartbeat: float = 30,
    ) -> Sequence[StoredJob]:
        """Return the jobs whose worker has been silent for `seconds_since_heartbeat`.

        With `nb_seconds`, return the jobs that have been running for longer than that, on any
        worker. You need not act on the jobs of silent workers: live workers take them over.
        """
        refuse_in_loop("get_stalled_jobs")
        return self._connector.run(
            _list_stalled(nb_seconds, queue, task_name, seconds_since_heartbeat)
        )

    async def get_stalled_jobs_async(
        self,
        nb_seconds: float | None = None,
        queue: str | None = None,
        task_name: str | None = None,
        seconds_since_heartbeat: float = 30,
    ) -> Sequence[StoredJob]:
        """Like `get_stalled_jobs`, in an event loop."""
        return await self._connector.run_async(
            _list_stalled(nb_seconds, queue, task_name, seconds_since_heartbeat)
        )


def refuse_in_loop(name: str) -> None:
    """Raise before doing anything if a method is called, and perhaps awaited, in an event loop.

    In procrastinate, this name is a coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(f"Called in an event loop. Write: await job_manager.{name}_async(…)")


def _list_stalled(
    nb_seconds: float | None, queue: str | None, task: str | None, silent: float
) -> Operation[list[StoredJob]]:
    running = None if nb_seconds is None else timedelta(seconds=nb_seconds)
    return list_stalled_jobs(timedelta(seconds=silent), running, queue, task)


def _filter(
    queue: str | None,
    task: str | None,
    status: str | None,
    lock: str | None,
    id: int | None = None,
    queueing_lock: str | None = None,
    worker_id: UUID | str | None = None,
    batch: int | None = None,
    group: str | None = None,
) -> JobFilter:
    if status is not None:
        check_choice("status", Status, status)
    statuses = () if status is None else (status,)
    return JobFilter(statuses, queue, task, lock, id, queueing_lock, worker_id, batch, group)
