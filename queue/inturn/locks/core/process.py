"""The state shared by the locks of one process: one object, with one hook for forks.

A forked child shares its parent's open files and knows its parent's leases, but owns none of them.
`after_fork` makes it forget what it must not touch.
"""

import os
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary


class Part(Protocol):
    """State that a module keeps for the whole process, such as its threads or its open files."""

    def after_fork(self) -> None:
        """Forget what belongs to the parent. Runs in the child."""


P = TypeVar("P", bound=Part)


class Process:
    """The leases of this process, its process id, and the parts that other modules add."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        # Keyed by id(), because a handle can create a second lease with the same lock_id.
        self.leases: WeakValueDictionary[int, Any] = WeakValueDictionary()
        # A mutex is lost with its process, not with the last reference to its lease.
        self.pinned_leases: set[Any] = set()
        self._parts: list[Part] = []

    def add_part(self, part: P) -> P:
        self._parts.append(part)
        return part

    def list_leases(self) -> list[Any]:
        """Return every lease that is still referenced, even while other threads acquire more."""
        return [lease for known in self.leases.valuerefs() if (lease := known()) is not None]

    def after_fork(self) -> None:
        self.pid = os.getpid()
        # In import order: open files are closed before the objects that hold them go.
        for part in self._parts:
            part.after_fork()


process = Process()
os.register_at_fork(after_in_child=process.after_fork)
