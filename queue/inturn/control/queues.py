"""`app.queues`: pause and resume queues and tasks."""

from datetime import datetime

from inturn.arguments import check_moment, check_queue, check_task_name
from inturn.control.twins import Control, blocking, in_loop
from inturn.operations import Operation
from inturn.operations.changes import pauses
from inturn.operations.changes.pauses import PausedQueue, PausedTask


class Queues(Control):
    """Pauses queues and tasks. `None` means all queues.

    app.queues.pause("mail", reason="supplier is down", by="eve")
    for pause in app.queues.list_paused():
        print(pause.queue, pause.reason, pause.until)
    app.queues.resume("mail")
    app.queues.pause_task("shop.tasks.send", reason="it sends twice")
    app.queues.resume_task("shop.tasks.send")

    `by` is the name that `lane_audit` records for a change. It defaults to the database user.
    """

    @blocking
    def pause(
        self,
        queue: str | None,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> Operation[None]:
        """Start no more jobs of a queue until `until`, or until it is resumed.

            app.queues.pause(None, reason="we move the database")

        A lane whose next job is in the queue waits. See docs/bulk.md.
        """
        if queue is not None:
            check_queue(queue)
        check_moment("until", until)
        return pauses.pause_queue(queue, reason, until, by)

    pause_async = in_loop(pause)

    @blocking
    def resume(self, queue: str | None, *, by: str | None = None) -> Operation[bool]:
        """Resume a queue. Return False if it was not paused.

        If all queues are paused too, it waits for that pause to end.
        """
        return pauses.resume_queue(queue, by)

    resume_async = in_loop(resume)

    @blocking
    def list_paused(self) -> Operation[list[PausedQueue]]:
        """Return the pauses, longest first."""
        return pauses.list_paused_queues()

    list_paused_async = in_loop(list_paused)

    @blocking
    def pause_task(
        self,
        task: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> Operation[None]:
        """Start no more jobs of a task until `until`, or until it is resumed.

            app.queues.pause_task("shop.tasks.send", reason="it sends twice", by="eve")

        Give the name stored with its jobs. A lane whose next job is of the task waits. See
        docs/bulk.md.
        """
        check_task_name(task)
        check_moment("until", until)
        return pauses.pause_task(task, reason, until, by)

    pause_task_async = in_loop(pause_task)

    @blocking
    def resume_task(self, task: str, *, by: str | None = None) -> Operation[bool]:
        """Resume a task. Return False if it was not paused.

        Its jobs in a paused queue wait for that pause to end, too.
        """
        return pauses.resume_task(task, by)

    resume_task_async = in_loop(resume_task)

    @blocking
    def list_paused_tasks(self) -> Operation[list[PausedTask]]:
        """Return the pauses of tasks, longest first."""
        return pauses.list_paused_tasks()

    list_paused_tasks_async = in_loop(list_paused_tasks)
