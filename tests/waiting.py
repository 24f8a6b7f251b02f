"""Wait for a condition, or check that something is over soon. Limits are generous."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LIMIT = 60.0  # seconds


def wait_until(condition: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait for a condition. The limit only keeps a failing test from hanging."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
