from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.server import Server


@pytest.fixture(scope="session")
def server(bin_dir: Path | None) -> Iterator[Server]:
    """One that listens on loopback, for a proxy to lead to."""
    with Server(bin_dir=bin_dir) as server:
        yield server
