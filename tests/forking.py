"""Forked processes, for tests of what they take from their parent."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONG = 60  # seconds


@contextmanager
def forked(work: Callable[[int], None]) -> Iterator[None]:
    """Two forked processes that do this while the block does."""
    forking = multiprocessing.get_context("fork")
    children = [forking.Process(target=work, args=(by,), daemon=True) for by in (1, 2)]
    try:
        for child in children:
            child.start()
        yield
        for child in children:
            child.join(LONG)
    finally:
        for child in children:
            child.kill()
            child.join()
    assert [child.exitcode for child in children] == [0, 0]
