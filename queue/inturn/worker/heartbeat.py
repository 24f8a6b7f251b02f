"""Says that the worker lives, and how long ago its event loop turned.

A thread with a connection of its own, on which nothing else is done: neither a task that blocks the loop nor whatever holds up
the rescue of others keeps the worker from being heard of. The truth is more than "the process is there", so a loop that
stands still is said in the worker's row and, once, in the log with what it is at; and a loop that is dead ends the beat.
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
from inturn.worker.loop_watch import LoopWatch

logger = logging.getLogger(__name__)
STOP_SECONDS = 1.0  # for a call that is under way; the thread ends with the process
TICK = 1.0  # seconds between looks at the loop, and between tries to be heard of


class Reactions:
    """What follows from what the heart finds; each is called in its thread."""

    def __init__(
        self,
        *,
        lost: Callable[[UUID], object],
        unheard: Callable[[], object],
        ticked: Callable[[float], object],
        dead: Callable[[], object],
    ) -> None:
        self.lost = lost  # the worker was taken for dead
        self.unheard = unheard  # this connection cannot be had: perhaps the loop's can
        self.ticked = ticked  # with the seconds for which the loop has not turned
        self.dead = dead  # the loop will never turn again


class Heartbeat:
    """Goes on until `stop`."""

    def __init__(
        self,
        connector: Connector,
        interval: float,
        worker_id: Callable[[], UUID],
        watch: LoopWatch,
        reactions: Reactions,
    ) -> None:
        self._connector = connector
        self._interval = interval
        self._worker_id = worker_id
        self._watch = watch
        self._reactions = reactions
        self._blocked = 0.0
        self._is_said = False  # that the loop is blocked
        self._end = Event()
        self._thread = Thread(target=self._run, name="inturn heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                with contextlib.closing(self._connector.connect("heartbeat")) as connection:
                    while not self._end.is_set():
                        self._beat(connection)
                        self._wait(self._interval)
            except (InturnError, psycopg.Error) as error:
                pause = min(TICK, self._interval) * random.uniform(0.5, 1.0)  # noqa: S311 (so that not all come at once)
                logger.warning("heartbeat.failed: %s; next try in %.1f s", error, pause)
                self._reactions.unheard()
                self._wait(pause)

    def _beat(self, connection: psycopg.Connection) -> None:
        mine = self._worker_id()
        blocked = timedelta(seconds=self._blocked)
        if not drive.run(upkeep.heartbeat(mine, blocked), connection, self._connector.schema):
            self._reactions.lost(mine)

    def _wait(self, seconds: float) -> None:
        """Until it is time for something again, with an eye on the loop meanwhile."""
        until = time.monotonic() + seconds
        while not self._end.is_set() and (left := until - time.monotonic()) > 0:
            self._end.wait(min(TICK, left))
            self._look()
            self._reactions.ticked(self._blocked)

    def _look(self) -> None:
        if self._watch.is_dead and not self._end.is_set():
            self._end.set()  # whoever has this worker's jobs in mind must not think that it lives
            self._reactions.dead()
            return
        self._blocked = self._watch.blocked()
        if self._blocked < self._interval:
            self._is_said = False
        elif not self._is_said:
            self._is_said = True
            logger.error(
                "loop.blocked: the event loop has been blocked for %.0f s, so no job can be claimed or reported. Stack:\n%s",
                self._blocked, self._watch.stack(),
            )  # fmt: skip
