"""Test your tasks on a real PostgreSQL, with the real worker.

**Databases** is a server with a migrated template database, which is cloned for each test. The
server is an embedded one, unless you name another. A **Queue** connects your app to a clone. It
runs waiting jobs in the test's own process (`drain`, `perform`) and controls the engine's clock. It
also has assertions on what was enqueued, and on the order in which a lane ran.

Nothing is faked. Jobs are deferred, claimed and finished by the same SQL as in production, and run
by the same worker. Their arguments go through JSON. You do not need pytest. If you use it, the
plugin (`inturn.testing.plugin`) provides fixtures.

    with Databases() as databases, databases.clone() as dsn, Queue(app, dsn) as queue:
        ship.configure(lock="order:1").defer(order=1)
        queue.assert_enqueued(ship, lock="order:1")
        queue.drain()
"""

from inturn.lazy import LazyNames

# pytest imports this package at every start, for the plugin. Load the driver only for a test.
_names = LazyNames(__name__, __file__)

NO_MEMORY = (
    "inturn has no InMemoryConnector. Each test gets a real database instead: use the fixture "
    "inturn_queue, or inturn.testing.Databases and Queue. See "
    "https://github.com/inturn/inturn/blob/main/docs/testing.md"
)
__all__ = _names.sort()


def __getattr__(name: str) -> object:
    if name == "InMemoryConnector":
        raise ImportError(NO_MEMORY)  # `from … import` would lose an AttributeError's text
    return _names.load(name)


__dir__ = _names.list_all
