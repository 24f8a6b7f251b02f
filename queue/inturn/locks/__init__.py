"""Locks independent of the queue: on Redis, on files, and on PostgreSQL.

Each class promises one of three things:

- A **mutex** belongs to a process or a PostgreSQL session, and is lost only with it.
- A **lease** has a time to live. Two can overlap, so pass its `fence` to what it protects.
- A **hint** is given to one caller, but has no owner.

See `docs/locks.md` for when to use which.

    from redis import Redis
    from inturn.locks import SmartLock

    with SmartLock(Redis(), "report:2024") as lease:
        ...
        lease.ensure()  # raises if the lock was lost

The async twin of `X` is `AsyncX`. Importing this package needs no Redis client or PostgreSQL; using
a lock needs its store.
"""

from inturn.lazy import LazyNames

_names = LazyNames(__name__, __file__)

__all__ = _names.sort()
__dir__ = _names.list_all


def __getattr__(name: str) -> object:
    try:
        return _names.load(name)
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise ModuleNotFoundError(
            f"{name} needs the Redis client: pip install 'inturn[redis]'", name="redis"
        ) from error
