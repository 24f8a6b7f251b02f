"""A real database for every test: one server and one migrated template a session, one clone a test.

INTURN_TEST_DSN names a server to use instead of an embedded one (its user must be allowed to create databases);
INTURN_TEST_PG_BIN names the binaries of another PostgreSQL for the embedded one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from inturn.embedded import Server
from inturn.migrate import migrate


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"  # psycopg waits on nothing else


@pytest.fixture(scope="session")
def bin_dir() -> Path | None:
    named = os.environ.get("INTURN_TEST_PG_BIN")
    return Path(named) if named else None


@pytest.fixture(scope="session")
def server_dsn(bin_dir: Path | None) -> Iterator[str]:
    named = os.environ.get("INTURN_TEST_DSN")
    if named:
        yield named
        return
    with Server(bin_dir=bin_dir) as server:
        yield server.dsn()


@pytest.fixture(scope="session")
def template(server_dsn: str) -> Iterator[str]:
    """The name of a migrated database; nobody may be connected to it while it is cloned."""
    with database(server_dsn) as name:
        migrate(make_conninfo(server_dsn, dbname=name))
        yield name


@pytest.fixture
def dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    with database(server_dsn, template) as name:
        yield make_conninfo(server_dsn, dbname=name)


@pytest.fixture
def empty_dsn(server_dsn: str) -> Iterator[str]:
    """A database of the test's own in which nothing is migrated."""
    with database(server_dsn) as name:
        yield make_conninfo(server_dsn, dbname=name)


@contextmanager
def database(server_dsn: str, template: str = "template1") -> Iterator[str]:
    # A connection for each end: one held open in between would wait idle for the length of the session.
    name = f"inturn_test_{uuid4().hex}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(template)))
    try:
        yield name
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
