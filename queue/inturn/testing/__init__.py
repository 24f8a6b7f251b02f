"""For the tests of those who use inturn: a real PostgreSQL, a database of its own for each test, the real worker.

**Databases** is a server, an embedded one unless another is named, and a migrated template on it; each test gets a clone.
A **Queue** points an app to such a clone, runs what waits in the test's own process (`drain`, `perform`), says what was
enqueued and in which order a lane ran, and holds the clock that the engine obeys.

Nothing is imitated: jobs are deferred, claimed and finished by the same SQL, run by the same worker, and their arguments
go through JSON. The helpers need no pytest; the plugin (`inturn.testing.plugin`) makes fixtures of them.

    with Databases() as databases, databases.clone() as dsn, Queue(app, dsn) as queue:
        ship.configure(lock="order:1").defer(order=1)
        queue.assert_enqueued(ship, lock="order:1")
        queue.drain()
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inturn.testing.databases import Databases
    from inturn.testing.harness import Queue
    from inturn.testing.jobs import Seen
    from inturn.testing.recording import Run

__all__ = ["Databases", "Queue", "Run", "Seen"]

_HOMES = {"Databases": "databases", "Queue": "harness", "Run": "recording", "Seen": "jobs"}


def __getattr__(name: str) -> object:
    # pytest imports this package at every start, for the plugin: the drivers are loaded when a test needs them.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"inturn.testing.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
