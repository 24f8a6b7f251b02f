"""A browser for the dashboard of a test's app: without a network, on the test's database."""

from collections.abc import Callable, Iterator
from threading import Thread

import pytest
from starlette.testclient import TestClient

from inturn import App
from inturn.web import Access, create_app, reading

SAME_ORIGIN = {"sec-fetch-site": "same-origin"}
EMPTY = {"": ""}  # a form without fields still has its type
Browse = Callable[[Access], TestClient]


@pytest.fixture(autouse=True)
def patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give pages thirty times as long for a statement, since the machine may be busy.

    A test that waits for the limit asks for less, as its parameter.
    """
    times = getattr(request, "param", 30)
    limit = "set_config('statement_timeout', {}, true)"
    longer = limit.format(f"(1000 * extract(epoch FROM {times} * %s::interval))::bigint::text")
    monkeypatch.setattr(reading, "TERMS", reading.TERMS.replace(limit.format("%s"), longer))


@pytest.fixture
def browse(app: App) -> Browse:
    """Return a browser that has this access."""

    def open_client(access: Access) -> TestClient:
        site = create_app(app, authorize=lambda request: access)
        return TestClient(site, headers=SAME_ORIGIN, follow_redirects=False)

    return open_client


def refuse_thread(thread: Thread) -> None:
    """Stand in for `Thread.start` in a process that has too many threads."""
    raise RuntimeError("can't start new thread")


@pytest.fixture
def client(browse: Browse) -> Iterator[TestClient]:
    """A browser that may do everything, as somebody called ana."""
    with browse(Access.FULL.named("ana")) as client:
        yield client
