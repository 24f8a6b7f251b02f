"""Locks by address: `redis://host/0#name`, `file:///path`, `postgresql://host/db#name`; asynchronous on request."""

from typing import Any, Literal, overload
from urllib.parse import unquote, urlsplit

from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock

REDIS = ("redis", "rediss", "unix")
POSTGRESQL = ("postgresql", "postgres")


@overload
def lock_from_url(url: str, *, asynchronous: Literal[False] = False, **options: Any) -> Lock: ...
@overload
def lock_from_url(url: str, *, asynchronous: Literal[True], **options: Any) -> AsyncLock: ...


def lock_from_url(url: str, *, asynchronous: bool = False, **options: Any) -> Lock | AsyncLock:
    """A SmartLock, a KernelFileLock or a PgLock, made with the options of that class; `redis`: a client to use."""
    address, _, name = url.partition("#")  # urllib would turn unix:///path into unix:/path
    name = unquote(name)
    scheme = scheme_of(url)
    if scheme == "file":
        return _on_file(unquote(urlsplit(address).path), name, asynchronous, options)
    if not name:
        raise ValueError(f"the address of a lock ends with its name: {scheme or 'redis'}://…#name")
    if scheme in REDIS:
        return _on_redis(address, name, asynchronous, options)
    if scheme in POSTGRESQL:
        return _on_postgresql(address, name, asynchronous, options)
    raise ValueError(f"no lock lives at {scheme or 'this'}: give redis://…#name, file:///… or postgresql://…#name")


def _on_redis(address: str, name: str, asynchronous: bool, options: dict[str, Any]) -> Lock | AsyncLock:
    from inturn.locks.redis.ports import async_client_at, client_at
    from inturn.locks.redis.smart import AsyncSmartLock, SmartLock

    client = options.pop("redis", None)
    if asynchronous:
        return AsyncSmartLock(client or async_client_at(address), name, **options)
    return SmartLock(client or client_at(address), name, **options)


def scheme_of(url: str) -> str:
    """Without a look at the rest: who fails to understand it repeats it, and there may be a password in it."""
    return url.partition(":")[0].lower() if "://" in url else ""


def _on_file(path: str, name: str, asynchronous: bool, options: dict[str, Any]) -> Lock | AsyncLock:
    from inturn.locks.files.kernel import AsyncKernelFileLock, KernelFileLock

    if name:  # a folder of locks, for templates: file:///run/locks#name
        path = f"{path.rstrip('/')}/{name.replace('/', '_')}"
    return AsyncKernelFileLock(path, **options) if asynchronous else KernelFileLock(path, **options)


def _on_postgresql(address: str, name: str, asynchronous: bool, options: dict[str, Any]) -> Lock | AsyncLock:
    from inturn.locks.postgres.pg_lock import AsyncPgLock, PgLock

    return AsyncPgLock(address, name, **options) if asynchronous else PgLock(address, name, **options)
