"""Locks beside the queue, useful without it: on Redis, on files, on PostgreSQL.

Each class promises one of three things. **Mutex**: kernel or PostgreSQL session; lost only with the process or the
connection. **Lease**: has a time to live, overlap is possible, so hand its `fence` to whatever it protects. **Hint**:
one of many gets it, nobody owns it. `docs/locks.md` says which one when.

    from redis import Redis
    from inturn.locks import SmartLock

    with SmartLock(Redis(), "report:2024") as lease:
        ...
        lease.ensure()  # raises if the lock was lost meanwhile

The async twin of `X` is `AsyncX`. Importing this package needs neither Redis nor PostgreSQL; using a lock needs its store.
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
        raise ModuleNotFoundError(f"{name} needs Redis's client: pip install 'inturn[redis]'", name="redis") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
