"""What a forked child must not use: the connections, threads and locks of its parent."""

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
_abandoned: list[object] = []
_owners: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def forget_in_child(owner: T, forget: Callable[[T], None]) -> None:
    """Call `forget(owner)` in each process that is forked from this one."""
    _owners[owner] = forget


def abandon(pool: object) -> None:
    """Keep a pool of the parent referenced. When it is collected, it stops its parent's threads."""
    _abandoned.append(pool)


def _after_fork() -> None:
    for owner, forget in _owners.items():
        forget(owner)


os.register_at_fork(after_in_child=_after_fork)
