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

from inturn.lazy import LazyNames

# pytest imports this package for the plugin at every start. Load the driver only for a test.
_names = LazyNames(__name__, __file__)

NO_MEMORY = (
    "inturn has no InMemoryConnector. Each test gets a real database instead: "
    "use the fixture inturn_queue, or inturn.testing.Databases and Queue. "
    "See https://github.com/inturn/inturn/blob/main/docs/testing.md"
)
__all__ = _names.sort()


def __getattr__(name: str) -> object:
    if name == "InMemoryConnector":
        raise ImportError(NO_MEMORY)  # an AttributeError would lose the text in `from … import`
    return _names.load(name)


__dir__ = _names.list_all
