"""Defers the jobs of periodic tasks when they are due.

Every worker does this, without a leader: for each instant of a schedule, the database stores one
job, for the first worker that asks (defer_periodic.sql).

Each time the thread wakes, it asks the server for the time. A wrong local clock does no harm,
because it is only used to sleep.
"""

import logging
from datetime import datetime, timedelta

import psycopg
from psycopg.errors import LockNotAvailable

from inturn.database.connector import Connector
from inturn.errors import BadArgument, ConnectorException, DatabaseUnavailable
from inturn.operations.engine import enqueue, schedules
from inturn.operations.engine.schedules import KnownSchedule
from inturn.tasks.periodic import Periodics
from inturn.tasks.task import Schedule
from inturn.worker.beside import ThreadBeside
from inturn.worker.retrying import OUTAGE_PAUSES, Backoff, FailureLog

logger = logging.getLogger(__name__)
LONGEST_SLEEP = 60.0  # seconds; the server's clock may be set while we sleep
SHORTEST_SLEEP = 0.005  # the server's clock may run slower than ours
BUSY_PAUSE = timedelta(seconds=1)  # before the next try if another session's lock is in the way


class Scheduler(ThreadBeside):
    """Runs until `stop`, through outages of the database."""

    def __init__(self, connector: Connector, app: Periodics) -> None:
        super().__init__(
            connector, "schedule", FailureLog(logger, "schedule.lost"), Backoff(*OUTAGE_PAUSES)
        )
        self._policies = {schedule: app.policy(schedule) for schedule in app.schedules()}
        self._descriptions = [
            KnownSchedule(each.task.name, each.periodic_id, each.cron.expression, each.cron.tz)
            for each in self._policies
        ]
        self._missed: dict[Schedule, datetime] = {}  # the newest missed instant that was logged

    def start(self) -> None:
        """Start the thread, if there is anything to schedule."""
        if self._policies:
            super().start()
        else:
            self.has_looked.set()

    def _begin(self, connection: psycopg.Connection) -> None:
        self._connector.run(schedules.register_schedules(self._descriptions), connection)

    def run_once(self, connection: psycopg.Connection) -> float:
        """Defer what is due. Return the seconds until the next instant."""
        progress = self._connector.run(schedules.get_progress(self._descriptions), connection)
        if any(each.after is None for each in progress):  # the row was deleted
            self._begin(connection)
            return SHORTEST_SLEEP
        waits = [LONGEST_SLEEP]
        for schedule, (now, after) in zip(self._policies, progress, strict=True):
            assert after is not None
            following = schedule.cron.next(after)
            if following is not None and following <= now:
                following = self._catch_up(connection, schedule, after, now)
            if following is not None:
                waits.append((following - now).total_seconds())
        sleep = max(SHORTEST_SLEEP, min(waits))
        if sleep > SHORTEST_SLEEP:
            self.has_looked.set()
        return sleep

    def _catch_up(
        self, connection: psycopg.Connection, schedule: Schedule, after: datetime, now: datetime
    ) -> datetime | None:
        """Defer what is due for one schedule. Return when to look at it again."""
        due = schedule.due(after, now, self._policies[schedule])
        if not due:
            self._note_missed(schedule, after, now)
            return schedule.cron.next(now)
        try:
            for instant in due:
                self._defer(connection, schedule, instant)
        except DatabaseUnavailable as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise
            # An open transaction has locked the row, or a job under the queueing lock.
            logger.warning("schedule.busy: %s at %s; trying again", schedule, due[0].isoformat())
            return now + BUSY_PAUSE
        except (ConnectorException, BadArgument) as error:  # of this schedule; the others continue
            logger.error("schedule.failed: %s at %s: %s", schedule, due[0].isoformat(), error)
            return schedule.cron.next(now)
        return now  # deferring took time, so more may be due

    def _defer(self, connection: psycopg.Connection, schedule: Schedule, instant: datetime) -> None:
        operation = enqueue.defer_periodic(schedule.periodic_id, instant, schedule.job(instant))
        job_id = self._connector.run(operation, connection)
        if job_id is not None:
            logger.info(
                "schedule.deferred: job %s of %s for %s", job_id, schedule, instant.isoformat()
            )

    def _note_missed(self, schedule: Schedule, after: datetime, now: datetime) -> None:
        missed = schedule.cron.newest(max(after, self._missed.get(schedule, after)), now)
        if missed is not None:
            self._missed[schedule] = missed
            logger.warning(
                "schedule.missed: %s was due at %s, but no worker ran in time (max_delay: %s)",
                schedule,
                missed.isoformat(),
                self._policies[schedule].max_delay,
            )
