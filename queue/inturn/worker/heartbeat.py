"""Tells the database that the worker is alive, and how long its event loop has been blocked.

Its connection is used for nothing else, so heartbeats continue while a rescue is held up. But a
live process is not necessarily a working worker: if the loop is blocked, the worker's row records
it, and the log shows once where; if the loop is dead, the heartbeat ends.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import psycopg

from inturn.database.connector import Connector
from inturn.worker.beside import ThreadBeside
from inturn.worker.loop_watch import LoopWatch
from inturn.worker.registration import Registration
from inturn.worker.retrying import Backoff, FailureLog

logger = logging.getLogger(__name__)
TICK = 1.0  # seconds between looks at the loop, and between tries to store a heartbeat


@dataclass(kw_only=True)
class Reactions:
    """Callbacks for what the thread finds."""

    lost: Callable[[UUID], object]  # others declared the worker dead
    unheard: Callable[[], object]  # no connection here, but the loop may have one
    ticked: Callable[[float], object]  # with the seconds since the loop last turned
    dead: Callable[[], object]  # the loop will never turn again


class Heartbeat(ThreadBeside):
    """Stores heartbeats, and looks at the loop in between."""

    def __init__(
        self,
        connector: Connector,
        interval: float,
        registration: Registration,
        watch: LoopWatch,
        reactions: Reactions,
    ) -> None:
        pause = min(TICK, interval)
        failures = FailureLog(logger, "heartbeat.failed")
        super().__init__(connector, "heartbeat", failures, Backoff(pause, pause))
        self._interval = self._first_pause = interval  # the registration was the first heartbeat
        self._registration = registration
        self._watch = watch
        self._reactions = reactions
        self.failures = 0  # heartbeats that could not be stored
        self._blocked = 0.0
        self._is_logged = False  # that the loop is blocked

    def run_once(self, connection: psycopg.Connection) -> float:
        """Store one heartbeat, and call `lost` if others declared the worker dead."""
        worker_id = self._registration.worker_id
        beat = self._registration.beat(timedelta(seconds=self._blocked))
        if not self._connector.run(beat, connection):
            self._reactions.lost(worker_id)
        return self._interval

    def _note_failure(self) -> None:
        self.failures += 1
        self._reactions.unheard()

    def _wait(self, seconds: float) -> None:
        """Wait, and check the loop now and then."""
        until = time.monotonic() + seconds
        while not self._end.is_set() and (left := until - time.monotonic()) > 0:
            self._end.wait(min(TICK, left))
            self._look()
            self._reactions.ticked(self._blocked)

    def _look(self) -> None:
        if self._watch.is_dead and not self._end.is_set():
            self._end.set()  # others must not believe that this worker looks after its jobs
            self._reactions.dead()
            return
        self._blocked = self._watch.blocked()
        if self._blocked < self._interval:
            self._is_logged = False
        elif not self._is_logged:
            self._is_logged = True
            logger.error(
                "loop.blocked: the event loop has been blocked for %.1f s, so jobs cannot be "
                "claimed or reported. Stack:\n%s",
                self._blocked,
                self._watch.stack(),
            )
