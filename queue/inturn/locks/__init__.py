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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inturn.locks.basic import AsyncBasicLock, BasicLock
    from inturn.locks.book import acquire_lock_with_timeout, release_lock
    from inturn.locks.decorator import locked
    from inturn.locks.engine import Holder
    from inturn.locks.errors import (
        LockBackendError,
        LockDeadlock,
        LockError,
        LockLost,
        LockMalformed,
        LockNotHeld,
        LockTimeout,
    )
    from inturn.locks.kernel import AsyncKernelFileLock, KernelFileLock
    from inturn.locks.lease import AsyncLease, Lease
    from inturn.locks.openlock import FileLock
    from inturn.locks.pg import AsyncPgLock, PgLock
    from inturn.locks.pg_fence import check_fence, check_fence_async, highest_fence, install
    from inturn.locks.policy import JOB, Policy
    from inturn.locks.semaphore import AsyncSemaphore, Semaphore
    from inturn.locks.several import lock_all
    from inturn.locks.sigterm import expire_soon
    from inturn.locks.smart import AsyncSmartLock, SmartLock, host_name
    from inturn.locks.tokenlock import TokenLock
    from inturn.locks.tokenlock_async import AsyncTokenLock
    from inturn.locks.urls import lock_from_url

_HOMES = {
    "AsyncBasicLock": "basic",
    "AsyncKernelFileLock": "kernel",
    "AsyncLease": "lease",
    "AsyncPgLock": "pg",
    "AsyncSemaphore": "semaphore",
    "AsyncSmartLock": "smart",
    "AsyncTokenLock": "tokenlock_async",
    "BasicLock": "basic",
    "FileLock": "openlock",
    "Holder": "engine",
    "JOB": "policy",
    "KernelFileLock": "kernel",
    "Lease": "lease",
    "LockBackendError": "errors",
    "LockDeadlock": "errors",
    "LockError": "errors",
    "LockLost": "errors",
    "LockMalformed": "errors",
    "LockNotHeld": "errors",
    "LockTimeout": "errors",
    "PgLock": "pg",
    "Policy": "policy",
    "Semaphore": "semaphore",
    "SmartLock": "smart",
    "TokenLock": "tokenlock",
    "acquire_lock_with_timeout": "book",
    "check_fence": "pg_fence",
    "check_fence_async": "pg_fence",
    "expire_soon": "sigterm",
    "highest_fence": "pg_fence",
    "host_name": "smart",
    "install": "pg_fence",
    "lock_all": "several",
    "lock_from_url": "urls",
    "locked": "decorator",
    "release_lock": "book",
}

__all__ = [
    "JOB",
    "AsyncBasicLock",
    "AsyncKernelFileLock",
    "AsyncLease",
    "AsyncPgLock",
    "AsyncSemaphore",
    "AsyncSmartLock",
    "AsyncTokenLock",
    "BasicLock",
    "FileLock",
    "Holder",
    "KernelFileLock",
    "Lease",
    "LockBackendError",
    "LockDeadlock",
    "LockError",
    "LockLost",
    "LockMalformed",
    "LockNotHeld",
    "LockTimeout",
    "PgLock",
    "Policy",
    "Semaphore",
    "SmartLock",
    "TokenLock",
    "acquire_lock_with_timeout",
    "check_fence",
    "check_fence_async",
    "expire_soon",
    "highest_fence",
    "host_name",
    "install",
    "lock_all",
    "lock_from_url",
    "locked",
    "release_lock",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise ModuleNotFoundError(f"{name} needs Redis's client: pip install 'inturn[redis]'", name="redis") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
