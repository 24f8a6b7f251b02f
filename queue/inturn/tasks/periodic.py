"""Tasks that run again and again: what `@app.periodic` declares, and which jobs are due at a moment.

A schedule is a task with a cron expression; one task may have several, told apart by their `periodic_id`. Every worker
knows the schedules of its app, and asks the database for the job of each instant when it has come; the first gets it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from inturn.errors import BadArgument, TaskDefinitionError
from inturn.schedules.misfires import CatchUp, CatchUpName, MisfirePolicy, Span

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from inturn.schedules.cron import Cron
    from inturn.tasks.options import NewJob, ScheduleOptions
    from inturn.tasks.task import Task

AnyTask = TypeVar("AnyTask", bound="Task[..., Any]")
MAX_ID_BYTES = 512
AT_ONCE = 100  # of what is caught up in one go


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """When a task runs again and again, and the options of its jobs."""

    task: Task[..., Any]
    periodic_id: str
    cron: Cron
    options: Mapping[str, Any]
    overrides: Mapping[str, Any]  # of the policy, what this schedule says itself

    def __str__(self) -> str:
        return f"{self.task.name} {self.periodic_id!r}" if self.periodic_id else self.task.name

    def job(self, instant: datetime) -> NewJob:
        return self.task.configure(**self.options)._job((), {"timestamp": int(instant.timestamp())})

    def due(self, after: datetime, now: datetime, policy: MisfirePolicy) -> list[datetime]:
        """The instants to defer now, in order; at most AT_ONCE. Those before are done with."""
        start = max(after, now - policy.max_delay - timedelta(microseconds=1))
        if policy.catch_up is CatchUp.ALL:
            return list(islice(self.cron.between(start, now), AT_ONCE))
        newest = self.cron.newest(start, now)
        return [] if newest is None else [newest]


class Periodics:
    """What a collection of tasks has for those that run again and again."""

    tasks: dict[str, Task[..., Any]]
    misfires = MisfirePolicy()  # unless a schedule says otherwise

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
        """Defer a job of the task below it whenever the cron expression says so, once, however many workers run.

            @app.periodic(cron="30 8 * * MON-FRI", tz="Europe/Berlin", lock="reports")
            @app.task
            def report(timestamp: int) -> None: ...

        cron: `minute hour day month weekday`, a sixth field is the second; tz: in which zone. The task is given the instant
        as `timestamp`, in seconds since 1970. Several schedules of one task differ in their periodic_id.

        max_delay: an instant that could not be deferred in time, because no worker ran, may still be so much later (ten
        minutes, or what the app's periodic_defaults say). catch_up: of several such instants the "last" only, or "all".
        The other options are those of `task.configure`.
        """
        from inturn.schedules.cron import Cron  # here: most who import tasks have no use for it

        clock = Cron(cron, tz)
        if not clock.fires:
            warnings.warn(
                f"cron: {cron!r} never fires, there is no such day; the task will not run",
                stacklevel=2,
            )
        overrides: dict[str, Any] = {"max_delay": max_delay, "catch_up": catch_up}
        MisfirePolicy().change(**overrides)
        for option in options.keys() & {"connection", "schedule_at"}:
            raise BadArgument(
                option, "a worker defers these jobs, at instants of their own; leave it out"
            )

        def declare(task: AnyTask) -> AnyTask:
            _add(Schedule(_check_task(task), _check_id(periodic_id), clock, {**options}, overrides))
            return task

        return declare

    def schedules(self) -> Iterator[Schedule]:
        """Those of all tasks, in the order in which they were declared."""
        for task in dict.fromkeys(self.tasks.values()):  # once each, whatever its aliases
            yield from task.schedules.values()

    def policy(self, schedule: Schedule) -> MisfirePolicy:
        """What becomes of missed instants of this schedule: what it says itself, else the defaults of the app."""
        return self.misfires.change(**schedule.overrides)


def _add(schedule: Schedule) -> None:
    known = schedule.task.schedules
    if schedule.periodic_id in known:
        raise TaskDefinitionError(
            f"{schedule.task.name} has two schedules with the periodic_id {schedule.periodic_id!r}. Give one of them another."
        )
    schedule.job(
        datetime.fromtimestamp(0).astimezone()
    )  # so that bad options and arguments are found now, not at night
    known[schedule.periodic_id] = schedule


def _check_task(task: AnyTask) -> AnyTask:
    if not hasattr(task, "schedules"):
        raise TaskDefinitionError(
            f"{getattr(task, '__qualname__', task)!r} is not a task yet. Write @app.periodic(…) above @app.task"
        )
    if task.names is not None and "timestamp" not in task.names:
        raise TaskDefinitionError(
            f"Task {task.name} is periodic but takes no `timestamp`, the instant that it runs for. Declare `timestamp: int`."
        )
    return task


def _check_id(periodic_id: object) -> str:
    try:
        fits = (
            isinstance(periodic_id, str)
            and "\0" not in periodic_id
            and len(periodic_id.encode()) <= MAX_ID_BYTES
        )
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise BadArgument(
            "periodic_id", f"{ascii(periodic_id)[:80]}: give text of at most {MAX_ID_BYTES} bytes"
        )
    return str(periodic_id)
