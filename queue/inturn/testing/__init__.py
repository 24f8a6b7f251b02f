"""Test your tasks on a real PostgreSQL, with the real worker.

**Databases** is a server and a migrated template on it, from which each test gets a clone.
The server is an embedded one, unless you name another.
A **Queue** connects your app to such a clone.
It runs waiting jobs in the test's own process (`drain`, `perform`) and controls the engine's clock.
It also has assertions on what was enqueued, and on the order in which a lane ran.

Nothing is faked.
The same SQL defers, claims and finishes jobs as in production, and the same worker runs them.
Their arguments go through JSON.
You do not need pytest. If you use it, the plugin (`inturn.testing.plugin`) has fixtures for you.

    with Databases() as databases, databases.clone() as dsn, Queue(app, dsn) as queue:
        ship.configure(lock="order:1").defer(order=1)
        queue.assert_enqueued(ship, lock="order:1")
        queue.drain()
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # "as" tells type checkers that these names are public
    from inturn.testing.databases import Databases as Databases
    from inturn.testing.harness import Queue as Queue
    from inturn.testing.jobs import Seen as Seen
    from inturn.testing.recording import Run as Run

_MODULES = {"Databases": "databases", "Queue": "harness", "Run": "recording", "Seen": "jobs"}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    # pytest imports this package for the plugin at every start. Load the driver only for a test.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"inturn.testing.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
