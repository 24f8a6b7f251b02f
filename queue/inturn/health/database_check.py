"""Checks whether this worker can use the database, without delaying a probe."""

import logging
import time
from threading import Event, Lock, Thread

import psycopg

from inturn.database import drive
from inturn.database.conditions import refuses_more
from inturn.database.connector import Connector
from inturn.database.kept_connection import KeptConnection
from inturn.errors import InturnError, SchemaMismatch
from inturn.operations.engine.maintenance import check_schema

logger = logging.getLogger(__name__)
PATIENCE = 0.7  # seconds; the probes of Kubernetes wait for one second
FRESH_SECONDS = 1.0  # a reply is reused until this age


class DatabaseCheck:
    """Keeps a connection for its question. At most one question is under way.

    A server that does not answer keeps a thread waiting, but no probe.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection = KeptConnection(connector, "health")
        self._guard = Lock()
        self._question: _Question | None = None

    def find_problem(self) -> str | None:
        """Return the problem with the database, or None."""
        with self._guard:
            question = self._question
            if question is None or question.is_stale:
                question = _Question()
                Thread(
                    target=self._ask, args=(question,), name="inturn health", daemon=True
                ).start()
                self._question = question  # now that somebody will answer it
        if question.answered.wait(PATIENCE):
            return question.problem
        return f"no answer for {time.monotonic() - question.asked_at:.0f} s"

    def close(self) -> None:
        """Close the connection, unless a question is under way, whose thread may use it."""
        with self._guard:
            if self._question is None or self._question.answered.is_set():
                self._connection.close()

    def _ask(self, question: "_Question") -> None:
        try:
            question.problem = self._look()
        except Exception:
            logger.exception("health.failed: the database check failed")
            question.problem = "the check failed"
        finally:
            question.answered_at = time.monotonic()
            question.answered.set()

    def _look(self) -> str | None:
        kept = self._connection.is_open
        try:
            return self._look_once()
        except (InturnError, psycopg.Error) as error:
            self._connection.close()
            if refuses_more(error):
                return "it refuses more connections"
            if not kept:
                return "it cannot be reached, or cannot do this now"
        return self._look()  # only the kept connection may have been lost

    def _look_once(self) -> str | None:
        schema = self._connector.schema
        try:
            drive.run(check_schema(schema), self._connection.get(), schema)
        except SchemaMismatch:
            return "its schema does not match this version"
        return None


class _Question:
    def __init__(self) -> None:
        self.asked_at = time.monotonic()
        self.answered_at = 0.0
        self.answered = Event()
        self.problem: str | None = None

    @property
    def is_stale(self) -> bool:
        return self.answered.is_set() and time.monotonic() - self.answered_at > FRESH_SECONDS
