"""The threads beside the loop: a task that blocks the loop does not hold them up."""

from contextlib import closing
from threading import Event, Thread

import psycopg

from inturn.database.connector import Connector
from inturn.worker.retrying import Backoff, FailureLog

STOP_SECONDS = 1.0  # for a call in progress; the thread ends with the process


class ThreadBeside:
    """Calls `run_once` over its own connection until `stop`, through outages of the database."""

    def __init__(
        self, connector: Connector, role: str, failures: FailureLog, pauses: Backoff
    ) -> None:
        self._connector = connector
        self._role = role
        self._failures = failures
        self._pauses = pauses
        self._first_pause = 0.0  # seconds before the first round
        self._end = Event()
        self.has_looked = Event()  # what was due at startup is done, or this has failed
        self._thread = Thread(target=self._run, name=f"inturn {role}", daemon=True)

    def run_once(self, connection: psycopg.Connection) -> float:
        """Do one round. Return the seconds until the next one."""
        raise NotImplementedError

    def _begin(self, connection: psycopg.Connection) -> None:
        """Prepare a new connection."""

    def _note_failure(self) -> None:
        """React to a failed round."""

    @property
    def trouble(self) -> str | None:
        return self._failures.trouble

    def start(self) -> None:
        """Start the thread unless it is already started."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread, if it was started, and wait briefly for it."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        self._wait(self._first_pause)
        while not self._end.is_set():
            try:
                with closing(self._connector.connect(self._role)) as connection:
                    self._begin(connection)
                    while not self._end.is_set():
                        pause = self.run_once(connection)
                        self._failures.forget()
                        self._pauses.reset()
                        self._wait(pause)
            except Exception as error:  # whatever it is, it must continue
                pause = self._pauses.next()
                self._failures.note(error, pause)
                self._note_failure()
                self.has_looked.set()
                self._wait(pause)

    def _wait(self, seconds: float) -> None:
        self._end.wait(seconds)
