"""A real database for every test: one server and one migrated template a session, one clone a test.

INTURN_TEST_DSN names a server to use instead of an embedded one (its user must be allowed to create databases);
INTURN_TEST_PG_BIN names the binaries of another PostgreSQL for the embedded one.
INTURN_TEST_ROLES=1: apps log in as one that may only defer, work and operate (see docs/security.md), not as a superuser.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.testing import Databases
from tests.roles import APP, as_login, grant_roles

pytest_plugins = ["pytester"]
WITH_ROLES = os.environ.get("INTURN_TEST_ROLES") == "1"


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"  # psycopg waits on nothing else


@pytest.fixture(scope="session")
def bin_dir() -> Path | None:
    named = os.environ.get("INTURN_TEST_PG_BIN")
    return Path(named) if named else None


@pytest.fixture(scope="session")
def databases(bin_dir: Path | None) -> Iterator[Databases]:
    with Databases(bin_dir=bin_dir, prepare=grant_roles if WITH_ROLES else None) as databases:
        yield databases


@pytest.fixture
def dsn(databases: Databases) -> Iterator[str]:
    """A migrated database of the test's own."""
    with databases.clone() as dsn:
        yield dsn


@pytest.fixture
def app_dsn(dsn: str) -> str:
    """The test's database as an app reaches it."""
    return as_login(dsn, APP) if WITH_ROLES else dsn


@pytest.fixture
def empty_dsn(databases: Databases) -> Iterator[str]:
    """A database of the test's own in which nothing is migrated."""
    with databases.empty() as dsn:
        yield dsn
