"""The part of `app.job_manager` that only looks."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from inturn.arguments import check_choice
from inturn.database.connector import Connector
from inturn.model import Status, StoredJob
from inturn.operations import Operation
from inturn.operations.listing import LISTED, Asked, By, Counts, counted, listed, stalled


class JobLists:
    """Looking at jobs, bounded: `list_jobs` shows the newest 1,000 unless told otherwise; what is counted are the newest
    10,000 live and 10,000 finished jobs that fit."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

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
    ) -> list[StoredJob]:
        """The newest jobs that fit, live and finished, in the order in which they were deferred.

        [job.id for job in app.job_manager.list_jobs(lock="alphabet", status="failed")]
        """
        return self._connector.run(
            _list(Asked(id, queue, task, status, lock, queueing_lock, worker_id), limit)
        )

    async def list_jobs_async(
        self,
        id: int | None = None,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
        queueing_lock: str | None = None,
        worker_id: UUID | str | None = None,
        limit: int = LISTED,
    ) -> list[StoredJob]:
        """Like `list_jobs`, in an event loop."""
        return await self._connector.run_async(
            _list(Asked(id, queue, task, status, lock, queueing_lock, worker_id), limit)
        )

    def list_queues(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> list[Counts]:
        """For each queue its name and how many jobs are in which status.

        write.defer(letter="a")
        [counts] = app.job_manager.list_queues(task=write.name)
        assert counts["name"] == "default" and counts["todo"] == 1
        """
        return self._connector.run(_count("queue", Asked(None, queue, task, status, lock)))

    async def list_queues_async(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> list[Counts]:
        """Like `list_queues`, in an event loop."""
        return await self._connector.run_async(
            _count("queue", Asked(None, queue, task, status, lock))
        )

    def list_tasks(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> list[Counts]:
        """For each task its name and how many jobs are in which status."""
        return self._connector.run(_count("task", Asked(None, queue, task, status, lock)))

    async def list_tasks_async(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> list[Counts]:
        """Like `list_tasks`, in an event loop."""
        return await self._connector.run_async(
            _count("task", Asked(None, queue, task, status, lock))
        )

    def list_locks(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> list[Counts]:
        """For each lock (1,000 at most) its name and how many jobs are in which status. What holds lanes up: `app.lanes`."""
        return self._connector.run(_count("lock", Asked(None, queue, task, status, lock)))

    async def list_locks_async(
        self,
        queue: str | None = None,
        task: str | None = None,
        status: str | None = None,
        lock: str | None = None,
    ) -> list[Counts]:
        """Like `list_locks`, in an event loop."""
        return await self._connector.run_async(
            _count("lock", Asked(None, queue, task, status, lock))
        )

    def get_stalled_jobs(
        self,
        nb_seconds: float | None = None,
        queue: str | None = None,
        task_name: str | None = None,
        seconds_since_heartbeat: float = 30,
    ) -> Sequence[StoredJob]:
        """Jobs whose worker was not heard of for so long; with `nb_seconds`, jobs that run for longer, whoever runs them.

        Only to look at: live workers take over what the first kind lists.
        """
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


def _list(asked: Asked, limit: int) -> Operation[list[StoredJob]]:
    return listed(_check(asked), limit)


def _count(by: By, asked: Asked) -> Operation[list[Counts]]:
    return counted(by, _check(asked))


def _list_stalled(
    nb_seconds: float | None, queue: str | None, task: str | None, silent: float
) -> Operation[list[StoredJob]]:
    since = None if nb_seconds is None else timedelta(seconds=nb_seconds)
    return stalled(timedelta(seconds=silent), since, queue, task)


def _check(asked: Asked) -> Asked:
    if asked.status is not None:
        check_choice("status", Status, asked.status)
    return asked
