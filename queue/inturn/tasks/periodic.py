"""Periodic tasks: what `@app.periodic` declares.

A schedule is a task with a cron expression. A task can have several, each with its own
`periodic_id`. Every worker knows the schedules of its app. At each instant, every worker tries to
defer the job, and the database accepts the first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from inturn.arguments import check_text
from inturn.errors import BadArgument, TaskDefinitionError
from inturn.schedules.misfires import CatchUpName, MisfirePolicy, Span
from inturn.tasks.task import Schedule, Task

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from inturn.tasks.options import ScheduleOptions

AnyTask = TypeVar("AnyTask", bound="Task[..., Any]")
MAX_ID_BYTES = 512


class Periodics:
    """The part of a collection of tasks for periodic tasks."""

    tasks: dict[str, Task[..., Any]]
    misfires = MisfirePolicy()  # for schedules without their own

    def periodic(
        self,
        *,
        cron: str,
        periodic_id: str = "",
        tz: str | ZoneInfo = "UTC",
        max_delay: Span | None = None,
        catch_up: CatchUpName | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[AnyTask], AnyTask]:
        """Defer a job of the task below whenever the cron expression fires.

        Each instant is deferred once, however many workers run.

            @app.periodic(cron="30 8 * * MON-FRI", tz="Europe/Berlin", lock="reports")
            @app.task
            def report(timestamp: int) -> None: ...

        The task receives the instant as `timestamp`, in seconds since 1970.

        cron: `minute hour day month weekday`, with an optional sixth field for the second.
        tz: the time zone of the expression.
        periodic_id: distinguishes several schedules of one task.
        max_delay: how late an instant may still be deferred if no worker ran at the time. The
        default is ten minutes, or the app's `periodic_defaults`.
        catch_up: if several instants were missed, defer the "last" one or "all" of them.

        The other options are those of `task.configure`.
        """
        from inturn.schedules.cron import Cron  # here, because most programs do not need it

        clock = Cron(cron, tz)
        if not clock.fires:
            warnings.warn(
                f"cron: {cron!r} never fires, because that date does not exist", stacklevel=2
            )
        overrides: dict[str, Any] = {"max_delay": max_delay, "catch_up": catch_up}
        MisfirePolicy().change(**overrides)
        for option in options.keys() & {"connection", "schedule_at", "after", "batch"}:
            raise BadArgument(
                option,
                "cannot be set for a periodic task, which is deferred when its schedule fires. "
                "Remove it",
            )

        def declare(task: AnyTask) -> AnyTask:
            _add(Schedule(_check_task(task), _check_id(periodic_id), clock, {**options}, overrides))
            return task

        return declare

    def schedules(self) -> Iterator[Schedule]:
        """Return the schedules of all tasks, in order of declaration.

        for schedule in app.schedules():
            print(schedule.task.name, schedule.periodic_id)
        """
        for task in dict.fromkeys(self.tasks.values()):  # once each, whatever its aliases
            yield from task.schedules.values()

    def policy(self, schedule: Schedule) -> MisfirePolicy:
        """Return the policy for missed instants of this schedule.

        for schedule in app.schedules():
            print(schedule.task.name, app.policy(schedule))
        """
        return self.misfires.change(**schedule.overrides)


def _add(schedule: Schedule) -> None:
    known = schedule.task.schedules
    if schedule.periodic_id in known:
        raise TaskDefinitionError(
            f"{schedule.task.name} has two schedules with the periodic_id "
            f"{schedule.periodic_id!r}. Give one of them another periodic_id."
        )
    # Create a job and discard it, so that bad options and arguments fail now and not at night.
    schedule.job(datetime.fromtimestamp(0).astimezone())
    known[schedule.periodic_id] = schedule


def _check_task(task: AnyTask) -> AnyTask:
    if not hasattr(task, "schedules"):
        raise TaskDefinitionError(
            f"{getattr(task, '__qualname__', task)!r} is not a task yet. "
            "Write @app.periodic(…) above @app.task"
        )
    if task.names is not None and "timestamp" not in task.names:
        raise TaskDefinitionError(
            f"Task {task.name} is periodic but does not accept the instant that it runs for. "
            "Declare the argument `timestamp: int`."
        )
    return task


def _check_id(periodic_id: object) -> str:
    if not isinstance(periodic_id, str) or len(periodic_id.encode(errors="replace")) > MAX_ID_BYTES:
        raise BadArgument(
            "periodic_id", f"{ascii(periodic_id)[:80]}: use text of at most {MAX_ID_BYTES} bytes"
        )
    check_text("periodic_id", periodic_id)
    return periodic_id
