"""The state shared by the locks of one process.

A forked child shares its parent's open files and knows its parent's leases, but owns none of them.
Each module has it forget what it must not touch, in import order: open files are closed before the
objects that hold them go.
"""

import os
from typing import Any
from weakref import WeakValueDictionary


class Process:
    """The leases of this process, and its process id."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        # Keyed by id(), because a handle can create a second lease with the same lock_id.
        self.leases: WeakValueDictionary[int, Any] = WeakValueDictionary()
        # A mutex is lost with its process, not with the last reference to its lease.
        self.pinned_leases: set[Any] = set()

    def list_leases(self) -> list[Any]:
        """Return every lease that is still referenced, even while other threads acquire more."""
        return [lease for known in self.leases.valuerefs() if (lease := known()) is not None]

    def after_fork(self) -> None:
        self.pid = os.getpid()


process = Process()
os.register_at_fork(after_in_child=process.after_fork)
