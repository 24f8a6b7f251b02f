"""`app.queues`: pause and resume queues and tasks."""

from datetime import datetime

from inturn.arguments import check_moment, check_queue, check_task_name
from inturn.database.connector import Connector
from inturn.operations import Operation
from inturn.operations.changes import queues, tasks
from inturn.operations.changes.queues import PausedQueue
from inturn.operations.changes.tasks import PausedTask


class Queues:
    """Pauses queues and tasks. `None` means all queues.

    app.queues.pause("mail", reason="supplier is down", by="eve")
    for pause in app.queues.list_paused():
        print(pause.queue, pause.reason, pause.until)
    app.queues.resume("mail")
    app.queues.pause_task("shop.tasks.send", reason="it sends twice")
    app.queues.resume_task("shop.tasks.send")

    `by` is the name that `lane_audit` records for a change. It defaults to the database user.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def pause(
        self,
        queue: str | None,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> None:
        """Start no more jobs of a queue until `until`, or until it is resumed.

            app.queues.pause(None, reason="we move the database")

        Jobs that workers have already claimed still run. A lane whose next job is in the queue
        waits. A pause replaces an earlier one of this queue, and nothing starts in between.
        """
        self._connector.run(_pause(queue, reason, until, by))

    async def pause_async(
        self,
        queue: str | None,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> None:
        """Like `pause`, in an event loop."""
        await self._connector.run_async(_pause(queue, reason, until, by))

    def resume(self, queue: str | None, *, by: str | None = None) -> bool:
        """Resume a queue. Return False if it was not paused.

        If all queues are paused too, it waits for that pause to end.
        """
        return self._connector.run(queues.resume_queue(queue, by))

    async def resume_async(self, queue: str | None, *, by: str | None = None) -> bool:
        """Like `resume`, in an event loop."""
        return await self._connector.run_async(queues.resume_queue(queue, by))

    def list_paused(self) -> list[PausedQueue]:
        """Return the pauses, longest first."""
        return self._connector.run(queues.list_paused_queues())

    async def list_paused_async(self) -> list[PausedQueue]:
        """Like `list_paused`, in an event loop."""
        return await self._connector.run_async(queues.list_paused_queues())

    def pause_task(
        self,
        task: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> None:
        """Start no more jobs of a task until `until`, or until it is resumed.

            app.queues.pause_task("shop.tasks.send", reason="it sends twice", by="eve")

        Give the name stored with its jobs. Jobs that workers have already claimed still run. A lane
        whose next job is of the task waits, and other jobs continue. A pause replaces an earlier
        one of this task, and nothing starts in between.
        """
        self._connector.run(_pause_task(task, reason, until, by))

    async def pause_task_async(
        self,
        task: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> None:
        """Like `pause_task`, in an event loop."""
        await self._connector.run_async(_pause_task(task, reason, until, by))

    def resume_task(self, task: str, *, by: str | None = None) -> bool:
        """Resume a task. Return False if it was not paused.

        If a queue is paused too, its jobs wait for that pause to end.
        """
        return self._connector.run(tasks.resume_task(task, by))

    async def resume_task_async(self, task: str, *, by: str | None = None) -> bool:
        """Like `resume_task`, in an event loop."""
        return await self._connector.run_async(tasks.resume_task(task, by))

    def list_paused_tasks(self) -> list[PausedTask]:
        """Return the pauses of tasks, longest first."""
        return self._connector.run(tasks.list_paused_tasks())

    async def list_paused_tasks_async(self) -> list[PausedTask]:
        """Like `list_paused_tasks`, in an event loop."""
        return await self._connector.run_async(tasks.list_paused_tasks())


def _pause(
    queue: str | None, reason: str | None, until: datetime | None, by: str | None
) -> Operation[None]:
    if queue is not None:
        check_queue(queue)
    check_moment("until", until)
    return queues.pause_queue(queue, reason, until, by)


def _pause_task(
    task: str, reason: str | None, until: datetime | None, by: str | None
) -> Operation[None]:
    check_task_name(task)
    check_moment("until", until)
    return tasks.pause_task(task, reason, until, by)
