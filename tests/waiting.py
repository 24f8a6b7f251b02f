"""Wait for a condition, or check that something is over soon. Limits are generous."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LIMIT = 60.0  # seconds
SHORTEST, LONGEST = 0.002, 0.1


def pauses() -> Iterator[float]:
    """Yield the seconds until each further look: a tenth of the wait so far.

    So what comes soon is seen at once, and a long wait costs the others little of the machine.
    """
    began = time.monotonic()
    while True:
        yield min(LONGEST, max(SHORTEST, (time.monotonic() - began) / 10))


def wait_until(
    condition: Callable[[], object],
    limit: float = LIMIT,
    explain: Callable[[], object] = lambda: "it takes too long",
) -> None:
    """Wait for a condition. The limit only keeps a failing test from hanging."""
    deadline = time.monotonic() + limit
    further = pauses()
    while not condition():
        assert time.monotonic() < deadline, explain()
        time.sleep(next(further))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
