"""Sessions that one test leaves to the next one in the same database.

A new session parses and plans each function of the engine again, which takes far longer than
most tests.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

import psycopg

from inturn.sql import SCHEMA
from tests.pool import KEPT

FORGET = "ROLLBACK; RESET ALL; UNLISTEN *; DISCARD TEMP; SELECT pg_advisory_unlock_all()"

_idle: dict[str, list[psycopg.Connection]] = {}


def take(dsn: str) -> psycopg.Connection:
    """Return a session in which each statement commits by itself."""
    close(_idle.keys() - {dsn})
    if kept := _idle.get(dsn):
        return kept.pop()
    return psycopg.connect(
        dsn,
        autocommit=True,
        prepare_threshold=None,  # as in a session that is new
        options=f"-c search_path={SCHEMA},pg_temp",
        application_name=KEPT,
    )


def close(dsns: Collection[str] | None = None) -> None:
    """Close the sessions that are kept, or only those of these databases."""
    for dsn in list(_idle) if dsns is None else dsns:
        for connection in _idle.pop(dsn):
            connection.close()


@contextmanager
def session(dsn: str) -> Iterator[psycopg.Connection]:
    """Take a session for the block."""
    connection = take(dsn)
    try:
        yield connection
    finally:
        give_back(dsn, connection)


def give_back(dsn: str, connection: psycopg.Connection) -> None:
    """Roll back what the test has left open, and keep the session for the next one."""
    with suppress(psycopg.OperationalError):  # somebody has ended it
        connection.execute(FORGET)
        _idle.setdefault(dsn, []).append(connection)
        return
    connection.close()
