from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.server import Server


@pytest.fixture(scope="session")
def server(bin_dir: Path | None) -> Iterator[Server]:
    """A server that listens on loopback, for a proxy in front of it."""
    with Server(bin_dir=bin_dir) as server:
        yield server
