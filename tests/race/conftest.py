from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.race.harness import Stage


@pytest.fixture
def stage(dsn: str) -> Iterator[Stage]:
    with closing(Stage(dsn)) as stage:
        yield stage
