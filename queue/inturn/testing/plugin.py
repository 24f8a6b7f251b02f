"""pytest's view of `inturn.testing`: fixtures, named `inturn_…`. Registered by an entry point; nothing of the queue is
imported before a test asks for one.

Name your app in pytest's settings (`inturn_app = "shop.tasks:app"`), or override the fixture `inturn_app`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from inturn import App
    from inturn.testing import Databases, Queue

NO_APP = (
    'No app is named for the tests. Write `inturn_app = "package.module:app"` into pytest\'s settings, or a fixture '
    "`inturn_app` that returns the app."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("inturn_app", "the app under test, as package.module:app", default="")


@pytest.fixture(scope="session")
def inturn_server() -> str | None:
    """The DSN of a server for the test databases; None: INTURN_TEST_DSN, else an embedded one. Override it to name yours."""
    return None


@pytest.fixture(scope="session")
def inturn_prepare() -> Callable[[str], object] | None:
    """Called once with the DSN of the template of all test databases. Override it to make tables of your own there."""
    return None


@pytest.fixture(scope="session")
def inturn_databases(
    inturn_server: str | None, inturn_prepare: Callable[[str], object] | None
) -> Iterator[Databases]:
    """The server, and clones of its template."""
    from inturn.testing import Databases

    with Databases(inturn_server, prepare=inturn_prepare) as databases:
        yield databases


@pytest.fixture
def inturn_database(inturn_databases: Databases) -> Iterator[str]:
    """The DSN of a fresh database with the queue's tables (and those of `inturn_prepare`), for this test alone."""
    with inturn_databases.clone() as dsn:
        yield dsn


@pytest.fixture
def inturn_app(pytestconfig: pytest.Config) -> App:
    """The app under test."""
    from inturn import App

    path = pytestconfig.getini("inturn_app")
    if not path:
        raise pytest.UsageError(NO_APP)
    return App.from_path(path)


@pytest.fixture
def inturn_queue(inturn_app: App, inturn_database: str) -> Iterator[Queue]:
    """The app on a database of this test's own; see `inturn.testing.Queue`."""
    from inturn.testing import Queue

    with Queue(inturn_app, inturn_database) as queue:
        yield queue
