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
from inturn.database.connector import Connector
from inturn.errors import InturnError
from inturn.operations import upkeep
from inturn.worker.chores import Chores
from inturn.worker.options import Options
from inturn.worker.witness import Witness

logger = logging.getLogger(__name__)
STOP_SECONDS = 1.0  # for a call that is under way; the thread ends with the process
LONGEST_PAUSE = 1.0  # seconds until the next try to reach the database


class Upkeep:
    """Goes on until `stop`. `noticed` is called, in its thread, when nobody is suspected any more."""

    def __init__(
        self,
        connector: Connector,
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
        self._chores = Chores(connector, options)
        self._judging_until = 0.0  # the chores can wait until then
        self._noticed = noticed
        self._must_notice = False
        self._end = Event()
        self._has_looked = Event()
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
                        self._end.wait(self._round(connection))
            except (InturnError, psycopg.Error) as error:
                pause = min(LONGEST_PAUSE, self._interval) * random.uniform(0.5, 1.0)  # noqa: S311 (not all at once)
                logger.warning("upkeep.failed: %s; next try in %.1f s", error, pause)
                self._witness.forget()  # who was away does not judge
                self._has_looked.set()
                self._end.wait(pause)

    def _round(self, connection: psycopg.Connection) -> float:
        """Return for how long to wait until the next."""
        due_at = time.monotonic() + self._interval
        if self._judge(connection):
            self._chores.rescue_now()
        elif self.suspects and time.monotonic() < self._judging_until:
            return max(0.0, due_at - time.monotonic())
        self._do_chores(connection)
        return max(0.0, min(due_at - time.monotonic(), self._chores.until_retry()))

    def _do_chores(self, connection: psycopg.Connection) -> None:
        """After long ones none is begun until it is known who is dead: judging needs looks that soon follow each other."""
        began = time.monotonic()
        try:
            self._chores.rescue.do(connection)
            self._has_looked.set()
            if self._must_notice and not self.suspects:
                self._must_notice = False
                self._noticed()
            self._chores.do_others(connection)
        finally:
            now = time.monotonic()
            if now - began > self._interval:
                self._judging_until = now + self._patience + 2 * self._interval

    def _judge(self, connection: psycopg.Connection) -> bool:
        """Declare dead who has fallen silent; return whether there was anybody. Note whether somebody is late of whom
        that is not known yet."""
        schema = self._connector.schema
        everybody = drive.run(
            upkeep.last_heartbeats(timedelta(seconds=self._patience)), connection, schema
        )
        heard = {each.worker_id: each.heartbeat_at for each in everybody if not each.locked}
        silent = self._witness.look(heard, self._worker_id(), time.monotonic())
        dead = drive.run(upkeep.declare_dead(silent), connection, schema) if silent else set()
        for worker_id in silent.keys() - dead:
            self._witness.forget(
                worker_id
            )  # somebody has its row locked, and so it may be unable to be heard of
        self.suspects = any(each.late and each.worker_id not in dead for each in everybody)
        self._must_notice |= self.suspects
        return bool(dead)
