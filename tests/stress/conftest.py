from collections.abc import Iterator

import pytest

from inturn.testing import Databases
from tests.conftest import set_autovacuum


@pytest.fixture(autouse=True)
def autovacuum(databases: Databases) -> Iterator[None]:
    """A server under load cleans up, as in production."""
    set_autovacuum(databases, "on")
    yield
    set_autovacuum(databases, "off")
