"""Rescue of dead workers' jobs, the net under the lanes, days of the history: needs no leader and no job.

A thread with a connection of its own, so that a task that blocks the event loop holds up nobody else's jobs. The worker's own sign
of life is not given here: what is done here may have to wait (see heartbeat.py).
"""

import contextlib
import logging
import random
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread
from uuid import UUID

import psycopg

from inturn.database import drive
from inturn.database.connectors import PsycopgConnector
from inturn.errors import InturnError
from inturn.operations import upkeep
from inturn.worker.options import Options
from inturn.worker.witness import Witness

logger = logging.getLogger(__name__)
HOUR, MINUTE = 3600.0, 60.0
DAYS_AHEAD = 3
LANES_A_ROUND = 500  # the reconciler goes round little by little; it is only the net
STOP_SECONDS = 1.0  # for a call that is under way; the thread ends with the process
LONGEST_PAUSE = 1.0  # seconds until the next try to reach the database


class Upkeep:
    """Goes on until `stop`. `noticed` is called, in its thread, when nobody is suspected any more."""

    def __init__(
        self,
        connector: PsycopgConnector,
        options: Options,
        worker_id: Callable[[], UUID],
        noticed: Callable[[], object],
    ) -> None:
        self.suspects = False  # some worker with jobs in hand is late, and not judged yet
        self._connector = connector
        self._worker_id = worker_id
        self._interval = options.update_heartbeat_interval
        self._patience = options.stalled_worker_timeout
        self._witness = Witness(self._patience, 2 * self._interval)
        self._keep = options.history
        self._max_lost = options.max_lost_attempts
        self._noticed = noticed
        self._end = Event()
        self._has_looked = Event()
        self._history_at = 0.0
        self._reconciled = ""  # the last lane that was looked at
        self._thread = Thread(target=self._run, name="inturn upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(STOP_SECONDS)

    def wait_for_first_look(self) -> None:
        """Until it is known whether others' jobs are to be taken over, or that was tried in vain."""
        self._has_looked.wait()

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                with contextlib.closing(self._connector.connect("upkeep")) as connection:
                    while not self._end.is_set():
                        self._look(connection)
                        self._end.wait(self._interval)
            except (InturnError, psycopg.Error) as error:
                pause = min(LONGEST_PAUSE, self._interval) * random.uniform(0.5, 1.0)  # noqa: S311 (not all at once)
                logger.warning("upkeep.failed: %s; next try in %.1f s", error, pause)
                self._witness.forget()  # who was away does not judge
                self._has_looked.set()
                self._end.wait(pause)

    def _look(self, connection: psycopg.Connection) -> None:
        suspected, self.suspects = self.suspects, self._judge(connection)
        self._rescue(connection)
        self._has_looked.set()
        if suspected and not self.suspects:
            self._noticed()
        schema = self._connector.schema
        self._reconciled = drive.run(upkeep.reconcile(self._reconciled, LANES_A_ROUND), connection, schema)
        if time.monotonic() >= self._history_at:
            is_prepared = drive.run(upkeep.prepare_history(DAYS_AHEAD), connection, schema) is not None
            is_pruned = self._keep is None or self._prune(self._keep, connection)
            self._history_at = time.monotonic() + (HOUR if is_prepared and is_pruned else MINUTE)

    def _judge(self, connection: psycopg.Connection) -> bool:
        """Declare dead who has fallen silent; return whether somebody is late of whom that is not known yet."""
        schema = self._connector.schema
        everybody = drive.run(upkeep.last_heartbeats(timedelta(seconds=self._patience)), connection, schema)
        heard = {each.worker_id: each.heartbeat_at for each in everybody if not each.locked}
        silent = self._witness.look(heard, self._worker_id(), time.monotonic())
        dead = drive.run(upkeep.declare_dead(silent), connection, schema) if silent else set()
        for worker_id in silent.keys() - dead:
            self._witness.forget(worker_id)  # somebody has its row locked, and so it may be unable to be heard of
        return any(each.late and each.worker_id not in dead for each in everybody)

    def _rescue(self, connection: psycopg.Connection) -> None:
        for job_id, worker_id, failed in drive.run(upkeep.rescue(self._max_lost), connection, self._connector.schema):
            if failed:
                logger.error(
                    "job.failed: job %s of worker %s, which is gone: more than %s of its workers died",
                    job_id, worker_id, self._max_lost,
                )  # fmt: skip
            else:
                logger.warning(
                    "job.rescued: job %s of worker %s, which is gone, waits for its next attempt", job_id, worker_id
                )

    def _prune(self, keep: timedelta, connection: psycopg.Connection) -> bool:
        """A few days at a time, so that whoever finishes jobs gets a turn in between. False: somebody is reading."""
        while dropped := drive.run(upkeep.prune_history(keep), connection, self._connector.schema):
            logger.info("history.pruned: %d days", dropped)
        return dropped is not None
