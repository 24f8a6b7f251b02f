"""Locks beside the queue, and useful without it: on Redis, on files, and on PostgreSQL.

Each class promises one of three things:

- A **mutex** belongs to a process or a PostgreSQL session, and is lost only with that.
- A **lease** has a time to live. Two of them can overlap, so hand its `fence` to what it protects.
- A **hint** goes to one of many, but nobody owns it.

`docs/locks.md` says when to use which.

    from redis import Redis
    from inturn.locks import SmartLock

    with SmartLock(Redis(), "report:2024") as lease:
        ...
        lease.ensure()  # raises if the lock was lost meanwhile

The async twin of `X` is `AsyncX`. You can import this package without a Redis client or PostgreSQL.
Only to use a lock do you need its store.
"""

from importlib import import_module

from inturn.locks.lazy import read_stub, sort_names

_modules = read_stub(__file__)

__all__ = sort_names(_modules)


def __getattr__(name: str) -> object:
    if name not in _modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_modules[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise ModuleNotFoundError(
            f"{name} needs the Redis client: pip install 'inturn[redis]'", name="redis"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
