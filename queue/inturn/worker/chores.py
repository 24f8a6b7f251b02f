"""What a worker does for all, beside judging who is dead. A chore that fails keeps no other from being done."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import psycopg

from inturn.database import drive
from inturn.database.connector import Connector
from inturn.errors import DatabaseUnavailable, InturnError
from inturn.operations import Operation, upkeep
from inturn.worker.backoff import Backoff
from inturn.worker.options import Options

T = TypeVar("T")
logger = logging.getLogger("inturn.worker.upkeep")
HOUR, MINUTE = 3600.0, 60.0
EACH_ROUND = 0.0
FIRST_PAUSE = 1.0  # seconds until a chore that has failed is tried again
DAYS_AHEAD = 3
LANES_A_ROUND = 500  # the reconciler goes round little by little; it is only the net


class Chore:
    """`work` returns for how many seconds it need not be done again. `rest`: for how many it rests at most while it fails."""

    def __init__(self, name: str, work: Callable[[psycopg.Connection], float], rest: float) -> None:
        self.due_at = 0.0
        self.has_failed = False
        self._name = name
        self._work = work
        self._backoff = Backoff(FIRST_PAUSE, rest)

    def do(self, connection: psycopg.Connection) -> None:
        """If it is due. Raise what is wrong with the connection, log what is wrong with the chore."""
        if time.monotonic() < self.due_at:
            return
        pause = self._backoff.next()
        self.due_at, self.has_failed = time.monotonic() + pause, True
        try:
            self.due_at = time.monotonic() + self._work(connection)
        except InturnError as error:
            if connection.closed or (
                isinstance(error, DatabaseUnavailable) and error.connection_lost
            ):
                raise
            logger.warning("upkeep.failed: %s: %s; next try in %.1f s", self._name, error, pause)
        else:
            self.has_failed = False
            self._backoff.reset()


class Chores:
    def __init__(self, connector: Connector, options: Options) -> None:
        # A chore may break the connection each time; then it leaves the time in between for judging.
        rest = 2 * options.stalled_worker_timeout
        self._connector = connector
        self._keep = options.history
        self._max_lost = options.max_lost_attempts
        self._reconciled = ""  # the last lane that was looked at
        self.rescue = Chore("rescue", self._rescue, rest)
        self._others = [
            Chore("reconcile lanes", self._reconcile, rest),
            Chore("prepare history", self._prepare, rest),
            Chore("prune history", self._prune, rest),
        ]

    def rescue_now(self) -> None:
        """Somebody has just been declared dead: do not rest any longer."""
        self.rescue.due_at = 0.0

    def do_others(self, connection: psycopg.Connection) -> None:
        for chore in self._others:
            chore.do(connection)

    def until_retry(self) -> float:
        """Seconds until one that has failed is tried again; infinite: none has."""
        failed = [chore.due_at for chore in (self.rescue, *self._others) if chore.has_failed]
        return min(failed, default=float("inf")) - time.monotonic()

    def _run(self, operation: Operation[T], connection: psycopg.Connection) -> T:
        return drive.run(operation, connection, self._connector.schema)

    def _rescue(self, connection: psycopg.Connection) -> float:
        for job_id, worker_id, failed in self._run(upkeep.rescue(self._max_lost), connection):
            if failed:
                logger.error(
                    "job.failed: job %s of worker %s, which is gone: more than %s of its workers died",
                    job_id, worker_id, self._max_lost,
                )  # fmt: skip
            else:
                logger.warning(
                    "job.rescued: job %s of worker %s, which is gone, waits for its next attempt",
                    job_id,
                    worker_id,
                )
        return EACH_ROUND

    def _reconcile(self, connection: psycopg.Connection) -> float:
        self._reconciled = self._run(upkeep.reconcile(self._reconciled, LANES_A_ROUND), connection)
        return EACH_ROUND

    def _prepare(self, connection: psycopg.Connection) -> float:
        return MINUTE if self._run(upkeep.prepare_history(DAYS_AHEAD), connection) is None else HOUR

    def _prune(self, connection: psycopg.Connection) -> float:
        """A few days at a time, so that whoever finishes jobs gets a turn in between. None: somebody is reading."""
        dropped = 0 if self._keep is None else self._drop_days(self._keep, connection)
        return MINUTE if dropped is None else HOUR

    def _drop_days(self, keep: timedelta, connection: psycopg.Connection) -> int | None:
        while dropped := self._run(upkeep.prune_history(keep), connection):
            logger.info("history.pruned: %d days", dropped)
        return dropped
