from collections.abc import Iterator

import pytest

from inturn import App
from inturn.testing import Queue


@pytest.fixture
def app() -> App:
    """An app as users have it: its database is named elsewhere, and does not exist in a test."""
    return App("postgresql://nowhere.invalid/production")


@pytest.fixture
def queue(app: App, dsn: str) -> Iterator[Queue]:
    with Queue(app, dsn) as queue:
        yield queue
