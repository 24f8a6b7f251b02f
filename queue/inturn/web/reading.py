"""The database access of pages: read-only, with a time limit, over at most two connections.

The dashboard therefore cannot hold up workers, however many people use it. Pages are sync code in
threads, so that they work with every connector.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from typing import Generic, TypeVar

import psycopg

from inturn.database import drive
from inturn.database.conditions import FORBIDDEN
from inturn.database.connector import Connector
from inturn.database.pools import has_ended
from inturn.database.session import Session
from inturn.errors import DatabaseBusy, DatabaseUnavailable, InturnError, SchemaMismatch
from inturn.operations import Operation

T = TypeVar("T")
CONNECTIONS = 2
PAGE_SECONDS = 2.0
BADGE_SECONDS = 0.5
LOCK_SHARE = 900  # ms of each second, to distinguish a locked table from a slow statement
WAIT_SECONDS = 5.0  # for one of the connections
# Force index plans, which stop at a LIMIT: statistics may be from when the table was empty.
TERMS = """
SELECT set_config('transaction_read_only', 'on', true),
       set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true),
       set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its remedy."""

    title: str
    detail: str

    @classmethod
    def of(cls, error: InturnError, seconds: float) -> Problem:
        cause = error.__cause__
        if isinstance(cause, psycopg.Error) and cause.sqlstate == FORBIDDEN:
            return cls(
                "The dashboard's login may not see this",
                f"{error}. Roles and what they may see: docs/security.md.",
            )
        if isinstance(cause, psycopg.errors.LockNotAvailable):
            return cls(
                "A table of the queue is locked",
                "Workers that write to it wait too. To find the session that has the lock, run: "
                "queue doctor",
            )
        match error:
            case DatabaseBusy():
                return cls(
                    f"This took longer than {seconds:g} s and was cancelled",
                    "The dashboard stops early so that it never burdens workers. Reload the page "
                    "or use a narrower filter.",
                )
            case SchemaMismatch():
                return cls("The database does not fit this version", str(error))
            case DatabaseUnavailable():
                return cls("The database cannot be reached", str(error))
        return cls("The database refused this", str(error))


@dataclass(frozen=True, slots=True)
class Panel(Generic[T]):
    """A part of a page: its data, or why it could not be read."""

    value: T | None
    problem: Problem | None = None


class Reading:
    """The connections that pages read with. The first page opens them."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._room = BoundedSemaphore(CONNECTIONS)
        self._guard = Lock()
        self._idle: list[Session] = []
        # A mounted app does not learn of the process's exit.
        weakref.finalize(self, _close_all, self._idle)

    def __str__(self) -> str:
        return str(self._connector)

    @contextmanager
    def open(self) -> Iterator[PageReader]:
        """Lend a reader, which connects at its first read."""
        reader = PageReader(self)
        try:
            yield reader
        finally:
            reader.release()

    @property
    def schema(self) -> str:
        return self._connector.schema

    def take(self) -> Session:
        """Return a connection, or raise DatabaseBusy if all stay in use for too long."""
        if not self._room.acquire(timeout=WAIT_SECONDS):
            raise DatabaseBusy("Other pages are being read")
        try:
            with self._guard:
                while self._idle:
                    found = self._idle.pop()
                    if not has_ended(found):
                        return found
                    found.close()
            return self._connector.connect("web")
        except BaseException:
            self._room.release()
            raise

    def give_back(self, connection: Session) -> None:
        """Keep a connection for the next page."""
        with self._guard:
            if not connection.closed:
                self._idle.append(connection)
        self._room.release()

    def close(self) -> None:
        with self._guard:
            _close_all(self._idle)


def _close_all(idle: list[Session]) -> None:
    while idle:
        with contextlib.suppress(psycopg.Error):
            idle.pop().close()


class PageReader:
    """Reads for one page over one connection. It is also a `Reader` of `inturn.doctor`."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._connection: Session | None = None
        self._seconds = PAGE_SECONDS
        self.schema = reading.schema
        self.queries = 0  # statements that were sent

    def panel(self, read: Callable[[PageReader], T], seconds: float = PAGE_SECONDS) -> Panel[T]:
        """Return what `read` returns, or why it failed. `seconds` limits each statement."""
        self._seconds = seconds
        try:
            return Panel(read(self))
        except InturnError as error:
            return Panel(None, Problem.of(error, seconds))

    def run(self, operation: Operation[T]) -> T:
        """Run an operation in a read-only transaction with a time limit."""
        if self._connection is None:
            self._connection = self._reading.take()
        connection = self._connection
        try:
            with drive.translate_errors(), connection.transaction():
                limits = [f"{round(share * self._seconds)}ms" for share in (1000, LOCK_SHARE)]
                connection.execute(TERMS, limits)
                return drive.run(self._count(operation), connection, self.schema)
        except BaseException:
            if connection.closed:
                self.release()
            raise

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._reading.give_back(connection)

    def _count(self, operation: Operation[T]) -> Operation[T]:
        try:
            statement = next(operation)
            while True:
                self.queries += 1
                rows = yield statement
                statement = operation.send(rows)
        except StopIteration as end:
            value: T = end.value
            return value
