from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tests.pool import Pool
from tests.roles import LOGINS, as_login

Session = psycopg.Connection[Any]
Log = Callable[[str], Session]


@pytest.fixture
def granted(granted_pool: Pool) -> Iterator[str]:
    """A database whose roles have their rights. The DSN is the superuser's."""
    yield granted_pool.lend()
    granted_pool.take_back()


@pytest.fixture
def log_in(granted: str) -> Iterator[Log]:
    """A session of the login that is a producer, worker, operator, monitor or owner."""
    with ExitStack() as sessions:
        yield lambda kind: sessions.enter_context(
            psycopg.connect(as_login(granted, LOGINS[kind]), autocommit=True)
        )


@pytest.fixture
def admin(granted: str) -> Iterator[Session]:
    with psycopg.connect(granted, autocommit=True) as connection:
        yield connection
