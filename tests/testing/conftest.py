from collections.abc import Iterator

import pytest

from inturn import App
from inturn.testing import Queue


@pytest.fixture
def app() -> App:
    """As a user has it: its database is named elsewhere, and not there in a test."""
    return App("postgresql://nowhere.invalid/production")


@pytest.fixture
def queue(app: App, dsn: str) -> Iterator[Queue]:
    with Queue(app, dsn) as queue:
        yield queue
