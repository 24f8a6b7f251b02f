"""The worker's row in the database."""

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol
from uuid import UUID

from inturn.operations import Operation
from inturn.operations.engine import workers
from inturn.operations.engine.schedules import name_schedule
from inturn.tasks.blueprint import Blueprint
from inturn.worker.connection import WorkerConnection
from inturn.worker.options import Options
from inturn.worker.witness import HEARTBEATS

logger = logging.getLogger(__name__)
# Unlike the monotonic clock, it runs while the machine is suspended. Not every system has it.
read_clock: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class Caller(Protocol):
    """A part of the worker that calls the database."""

    @property
    def trouble(self) -> str | None:
        """Return why the database refuses its calls, or None if it does not."""


class Registration:
    """The row that tells others that this worker exists and which jobs it can run.

    `worker_id` is new each time the worker registers: at startup, and after others declared it
    dead.
    """

    worker_id: UUID

    def __init__(
        self,
        connection: WorkerConnection,
        options: Options,
        app: Blueprint,
    ) -> None:
        self.tenure = Tenure(options.update_heartbeat_interval)
        self.listens: Callable[[], bool | None] = lambda: None  # None: it wants no notifications
        self.callers: Sequence[Caller | None] = ()
        self.queues = None if options.queues is None else list(options.queues)
        self.is_stopping = False
        self._registered_at: float | None = None  # first, by the monotonic clock
        self._connection = connection
        self._options = options
        self._app = app
        self._schedules = [
            name_schedule(schedule.task.name, schedule.periodic_id) for schedule in app.schedules()
        ]

    @property
    def trouble(self) -> str | None:
        """Return why the database refuses a call of the worker, or None if it does not."""
        return next((each.trouble for each in self.callers if each and each.trouble), None)

    async def register(self) -> None:
        """Insert a new row and take its id."""
        o = self._options
        self._registered_at = self._registered_at or time.monotonic()
        asked_at = self.tenure.ask()
        self.worker_id = await self._connection.run(
            workers.register_worker(
                o.name,
                socket.gethostname(),
                os.getpid(),
                [] if self.is_stopping else self.queues,
                o.concurrency,
                self._app._known_tasks(),
                self._schedules,
                timedelta(seconds=o.update_heartbeat_interval),
                o.days_told,
                timedelta(seconds=time.monotonic() - self._registered_at),
            )
        )
        self.tenure.confirm(asked_at)
        logger.info(
            "worker.started: %s %s, concurrency %d, queues: %s",
            o.name,
            self.worker_id,
            o.concurrency,
            ", ".join(self.queues or ["all"]),
        )

    def beat(self, blocked: timedelta = timedelta(0)) -> Operation[bool]:
        """Store a heartbeat. Return False if the row is gone because others declared us dead.

        `blocked` is how long the event loop has not turned.
        """
        asked_at = self.tenure.ask()
        is_known = yield from workers.record_heartbeat(
            self.worker_id, blocked, self.listens(), self.trouble, is_stopping=self.is_stopping
        )
        if is_known:
            self.tenure.confirm(asked_at)
        return is_known

    def unregister(self, error: str | None) -> Operation[int]:
        """Delete the row and give all jobs back to their lanes. Return their number.

        With an error, the jobs count as lost, as if the worker had died.
        """
        return workers.unregister_worker(self.worker_id, error, self._options.max_lost_attempts)


class Tenure:
    """Decides whether the worker may start a job without asking whether it still owns it.

    It begins with each heartbeat that the server confirms, and lasts for half the time that a
    worker with this `interval` may be silent. Others cannot have taken over our jobs while it
    lasts. But a worker that was stopped, or whose machine was suspended, wakes up with jobs in hand
    that others may have. Nothing can stop a run that has begun, but no new one needs to begin.
    """

    def __init__(self, interval: float, clock: Callable[[], float] = read_clock) -> None:
        self._seconds = interval * HEARTBEATS / 2
        self.clock = clock
        self._confirmed_at = clock()

    def ask(self) -> float:
        """Return the argument of `confirm`. Call it before you ask the server."""
        return self.clock()

    def confirm(self, asked_at: float) -> None:
        """Note that the server has confirmed that the worker still owns its jobs."""
        self._confirmed_at = max(self._confirmed_at, asked_at)

    def lasts(self) -> bool:
        """Return True if the worker may start jobs."""
        return self.clock() - self._confirmed_at <= self._seconds
