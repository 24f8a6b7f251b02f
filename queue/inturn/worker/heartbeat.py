"""Tells the database that the worker is alive, and how long its event loop has been blocked.

It is a thread with its own connection, used for nothing else, so heartbeats continue while a task
blocks the event loop or a rescue is held up. But a live process is not necessarily a working
worker: if the loop is blocked, the worker's row records it, and the log shows once where; if the
loop is dead, the heartbeat ends.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread
from uuid import UUID

import psycopg

from inturn.database.connector import Connector
from inturn.worker.backoff import shorten
from inturn.worker.failure_log import FailureLog
from inturn.worker.loop_watch import LoopWatch
from inturn.worker.registration import Registration

logger = logging.getLogger(__name__)
STOP_SECONDS = 1.0  # for a call in progress; the thread ends with the process
TICK = 1.0  # seconds between looks at the loop, and between tries to store a heartbeat


@dataclass(kw_only=True)
class Reactions:
    """Callbacks for what the thread finds."""

    lost: Callable[[UUID], object]  # others declared the worker dead
    unheard: Callable[[], object]  # no connection here, but the loop may have one
    ticked: Callable[[float], object]  # with the seconds since the loop last turned
    dead: Callable[[], object]  # the loop will never turn again


class Heartbeat:
    """Runs until `stop`."""

    def __init__(
        self,
        connector: Connector,
        interval: float,
        registration: Registration,
        watch: LoopWatch,
        reactions: Reactions,
    ) -> None:
        self._connector = connector
        self._interval = interval
        self._registration = registration
        self._watch = watch
        self._reactions = reactions
        self.failures = 0  # heartbeats that could not be stored
        self._failures = FailureLog(logger, "heartbeat.failed")
        self._blocked = 0.0
        self._is_logged = False  # that the loop is blocked
        self._end = Event()
        self._thread = Thread(target=self._run, name="inturn heartbeat", daemon=True)

    @property
    def trouble(self) -> str | None:
        """Return why the database refuses its calls, or None if it does not."""
        return self._failures.trouble

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait briefly for it."""
        self._end.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        self._wait(self._interval)  # the registration was the first heartbeat
        while not self._end.is_set():
            try:
                with contextlib.closing(self._connector.connect("heartbeat")) as connection:
                    while not self._end.is_set():
                        self.run_once(connection)
                        self._failures.forget()
                        self._wait(self._interval)
            except Exception as error:  # whatever it is, without heartbeats the jobs are lost
                self.failures += 1
                pause = shorten(min(TICK, self._interval))
                self._failures.note(error, pause)
                self._reactions.unheard()
                self._wait(pause)

    def run_once(self, connection: psycopg.Connection) -> None:
        """Store one heartbeat, and call `lost` if others declared the worker dead."""
        worker_id = self._registration.worker_id
        beat = self._registration.beat_operation(timedelta(seconds=self._blocked))
        if not self._connector.run(beat, connection):
            self._reactions.lost(worker_id)

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
