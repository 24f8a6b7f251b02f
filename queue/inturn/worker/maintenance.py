"""Rescues dead workers' jobs, repairs lanes and maintains the history, without a leader.

The worker's own heartbeat is sent elsewhere (heartbeat.py), because maintenance may have to wait.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import psycopg

from inturn.database.connector import Connector
from inturn.errors import InturnError
from inturn.operations import Operation
from inturn.operations.engine import maintenance, workers
from inturn.operations.engine.workers import LastHeartbeat
from inturn.worker.beside import ThreadBeside
from inturn.worker.chores import Chores
from inturn.worker.connection import WorkerConnection
from inturn.worker.options import Options
from inturn.worker.retrying import Backoff, FailureLog
from inturn.worker.witness import Witness

logger = logging.getLogger(__name__)
LONGEST_PAUSE = 1.0  # seconds until the next try to reach the database


class Maintenance(ThreadBeside):
    """Judges which workers are dead, and does the chores.

    The thread calls `settled` once no worker is suspected any more.
    """

    def __init__(
        self,
        connector: Connector,
        options: Options,
        worker_id: Callable[[], UUID],
        settled: Callable[[], object],
    ) -> None:
        self._interval = options.update_heartbeat_interval
        pause = min(LONGEST_PAUSE, self._interval)
        failures = FailureLog(logger, "maintenance.failed")
        super().__init__(connector, "maintenance", failures, Backoff(pause, pause))
        self.suspects = False  # a worker with jobs in hand is late but not judged yet
        self._worker_id = worker_id
        self._patience = options.stalled_worker_timeout
        self._witness = Witness(self._patience, 2 * self._interval)
        self._chores = Chores(connector, options)
        self._judging_until = 0.0  # the chores can wait until then
        self._settled = settled
        self._must_settle = False

    @property
    def trouble(self) -> str | None:
        return super().trouble or self._chores.trouble

    async def begin(self, connection: WorkerConnection) -> None:
        """Take a first look over an existing connection, and start the thread.

        If there is nothing to do, the thread connects only for the second look, an interval later.
        """
        with contextlib.suppress(InturnError, psycopg.Error):
            everybody = await connection.run_beside(self._list_heartbeats())
            upkeep_is_due = await connection.run_beside(maintenance.is_upkeep_due())
            if everybody and not upkeep_is_due and not any(each.late for each in everybody):
                self._observe(everybody)
                self._first_pause = self._interval
        self.start()

    def _note_failure(self) -> None:
        self._witness.forget()  # a worker that was away must not judge others

    def run_once(self, connection: psycopg.Connection) -> float:
        """Judge which workers are dead and do the chores that are due.

        Return the seconds until the next round.
        """
        due_at = time.monotonic() + self._interval
        if self._judge(connection):
            self._chores.rescue.make_due()
        elif self.suspects and time.monotonic() < self._judging_until:
            return max(0.0, due_at - time.monotonic())
        self._do_chores(connection)
        return max(0.0, min(due_at - time.monotonic(), self._chores.until_retry()))

    def _do_chores(self, connection: psycopg.Connection) -> None:
        """Do the chores that are due.

        After long ones, do none until it is known which workers are dead: judging needs looks in
        quick succession.
        """
        began = time.monotonic()
        try:
            self._chores.rescue.do(connection)
            self.has_looked.set()
            if self._must_settle and not self.suspects:
                self._must_settle = False
                self._settled()
            self._chores.do_others(connection)
        finally:
            now = time.monotonic()
            if now - began > self._interval:
                self._judging_until = now + self._patience + 2 * self._interval

    def _judge(self, connection: psycopg.Connection) -> bool:
        """Declare silent workers dead. Return True if there were any.

        Also note whether any worker is late but cannot be judged yet.
        """
        everybody = self._connector.run(self._list_heartbeats(), connection)
        silent = self._observe(everybody)
        dead = self._connector.run(workers.declare_dead(silent), connection) if silent else set()
        # The others' rows are locked, so they may be unable to store a heartbeat.
        for worker_id in silent.keys() - dead:
            self._witness.forget(worker_id)
        self.suspects = any(each.late and each.worker_id not in dead for each in everybody)
        self._must_settle |= self.suspects
        return bool(dead)

    def _list_heartbeats(self) -> Operation[list[LastHeartbeat]]:
        return workers.list_last_heartbeats(timedelta(seconds=self._patience))

    def _observe(self, everybody: list[LastHeartbeat]) -> dict[UUID, datetime]:
        """Record the heartbeats. Return those of the silent workers."""
        heard = {each.worker_id: each.heartbeat_at for each in everybody if not each.locked}
        every = {each.worker_id: each.every.total_seconds() for each in everybody if each.every}
        return self._witness.look(heard, self._worker_id(), time.monotonic(), every)
