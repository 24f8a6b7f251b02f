"""Heartbeat, rescue of dead workers' jobs, the net under the lanes, days of the history: needs no leader and no job.

A thread with a connection of its own, so that a task that blocks the event loop does not make the worker look dead.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread
from uuid import UUID

import psycopg

from inturn import drive
from inturn.connectors import PsycopgConnector
from inturn.errors import ConnectorException
from inturn.operations import upkeep
from inturn.worker.options import Options

logger = logging.getLogger(__name__)
HOUR, MINUTE = 3600.0, 60.0
DAYS_AHEAD = 3
LANES_A_BEAT = 500  # the reconciler goes round little by little; it is only the net


class Upkeep:
    """Goes on until `stop`. In its thread it calls `lost` with the worker's id when that was taken for dead."""

    def __init__(
        self,
        connector: PsycopgConnector,
        options: Options,
        worker_id: UUID,
        lost: Callable[[UUID], object],
    ) -> None:
        self.worker_id = worker_id
        self._connector = connector
        self._interval = options.update_heartbeat_interval
        self._patience = timedelta(seconds=options.stalled_worker_timeout)
        self._keep = options.history
        self._max_lost = options.max_lost_attempts
        self._lost = lost
        self._end = Event()
        self._history_at = 0.0
        self._reconciled = ""  # the last lane that was looked at
        self._thread = Thread(target=self._run, name="inturn upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                with contextlib.closing(self._connector.connect("upkeep")) as connection:
                    while not self._end.is_set():
                        self._beat(connection)
                        self._end.wait(self._interval)
            except (ConnectorException, psycopg.Error) as error:
                logger.warning("upkeep.failed: %s; next try in %.1f s", error, self._interval)
                self._end.wait(self._interval)

    def _beat(self, connection: psycopg.Connection) -> None:
        schema = self._connector.schema
        mine = self.worker_id
        if not drive.run(upkeep.heartbeat(mine), connection, schema):
            self._lost(mine)
        for job_id, worker_id, failed in drive.run(upkeep.rescue(self._patience, self._max_lost), connection, schema):
            if failed:
                logger.error(
                    "job.failed: job %s of worker %s, which is gone: more than %s of its workers died",
                    job_id, worker_id, self._max_lost,
                )  # fmt: skip
            else:
                logger.warning(
                    "job.rescued: job %s of worker %s, which is gone, waits for its next attempt", job_id, worker_id
                )
        self._reconciled = drive.run(upkeep.reconcile(self._reconciled, LANES_A_BEAT), connection, schema)
        if time.monotonic() >= self._history_at:
            drive.run(upkeep.prepare_history(DAYS_AHEAD), connection, schema)
            is_pruned = self._keep is None or self._prune(self._keep, connection)
            self._history_at = time.monotonic() + (HOUR if is_pruned else MINUTE)

    def _prune(self, keep: timedelta, connection: psycopg.Connection) -> bool:
        """A few days at a time, so that whoever finishes jobs gets a turn in between. False: somebody is reading."""
        while dropped := drive.run(upkeep.prune_history(keep), connection, self._connector.schema):
            logger.info("history.pruned: %d days", dropped)
        return dropped is not None
