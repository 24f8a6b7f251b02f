"""The pytest plugin: fixtures of `inturn.testing`, named `inturn_…`.

An entry point registers it. It imports nothing else of inturn until a test uses a fixture.

Name your app in pytest's settings (`inturn_app = "shop.tasks:app"`), or override the fixture
`inturn_app`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from inturn import App
    from inturn.testing import Databases, Queue

NO_APP = (
    'No app is configured for the tests. Add `inturn_app = "package.module:app"` to pytest\'s '
    "settings, or write a fixture `inturn_app` that returns your app."
)
NO_DJANGO = (
    "Django's app needs Django's test database. Install pytest-django, which creates it, or write "
    "a fixture `inturn_queue` that creates one and yields inturn.testing.Queue(app)."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("inturn_app", "the app under test, as package.module:app", default="")


@pytest.fixture(scope="session")
def inturn_server() -> str | None:
    """The DSN of the server for the test databases. Override it to name your own.

    None means the server at INTURN_TEST_DSN, or else an embedded one.
    """
    return None


@pytest.fixture(scope="session")
def inturn_prepare() -> Callable[[str], object] | None:
    """A function that prepares the template of all test databases. Override it to add tables.

    It is called once, with the DSN of the template.
    """
    return None


@pytest.fixture(scope="session")
def inturn_databases(
    inturn_server: str | None, inturn_prepare: Callable[[str], object] | None
) -> Iterator[Databases]:
    """The server for the test databases."""
    from inturn.testing import Databases

    with Databases(inturn_server, prepare=inturn_prepare) as databases:
        yield databases


@pytest.fixture
def inturn_database(inturn_databases: Databases) -> Iterator[str]:
    """The DSN of a new database for this test alone, with all tables of the template."""
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
def inturn_queue(request: pytest.FixtureRequest, inturn_app: App) -> Iterator[Queue]:
    """Your app on this test's own database, as an `inturn.testing.Queue`.

    Django's app uses pytest-django's test database. The test gets `transactional_db`, unless it
    requests another database fixture or mark.
    """
    from inturn.testing import Queue
    from inturn.testing.transactions import FrameworkConnector

    dsn = None
    if isinstance(inturn_app.connector, FrameworkConnector):
        if not request.config.pluginmanager.hasplugin("django"):
            raise pytest.UsageError(NO_DJANGO)
        marked = request.node.get_closest_marker("django_db") is not None
        if not marked and "db" not in request.fixturenames:
            # pytest-django looks at the mark. It does not see a fixture requested this late.
            request.applymarker(pytest.mark.django_db(transaction=True))
            request.getfixturevalue("transactional_db")
    else:
        dsn = request.getfixturevalue("inturn_database")
    with Queue(inturn_app, dsn) as queue:
        yield queue
