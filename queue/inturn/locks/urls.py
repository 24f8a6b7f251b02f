"""Locks by address: `redis://host/0#name`, `file:///path`, or `postgresql://host/db#name`."""

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
    """Return the SmartLock, KernelFileLock or PgLock at this address.

    `options` are those of its class. For Redis, `redis=` sets the client to use.
    """
    address, _, name = url.partition("#")  # urllib would turn unix:///path into unix:/path
    name, scheme = unquote(name), scheme_of(url)
    if scheme == "file":
        from inturn.locks.files.kernel import AsyncKernelFileLock, KernelFileLock

        path = path_of(address)
        if name:  # in a folder of locks, for templates: file:///run/locks#name
            path = f"{path.rstrip('/')}/{name.replace('/', '_')}"
        return (AsyncKernelFileLock if asynchronous else KernelFileLock)(path, **options)
    if scheme not in (*REDIS, *POSTGRESQL):
        raise ValueError(
            f"{f'{scheme}://…' if scheme else 'this'} is not a lock's address: use redis://…#name, "
            "file:///… or postgresql://…#name"
        )
    if not name:
        raise ValueError(f"the address of a lock must end with its name: {scheme}://…#name")
    if scheme in REDIS:
        try:
            from inturn.locks.redis.clients import async_client_at, client_at
            from inturn.locks.redis.smart import AsyncSmartLock, SmartLock
        except ModuleNotFoundError:
            from inturn.errors import MissingExtra

            raise MissingExtra("A lock in Redis", "redis") from None
        client = options.pop("redis", None)
        if asynchronous:
            return AsyncSmartLock(client or async_client_at(address), name, **options)
        return SmartLock(client or client_at(address), name, **options)

    from inturn.locks.postgres.pg_lock import AsyncPgLock, PgLock

    return (AsyncPgLock if asynchronous else PgLock)(address, name, **options)


def scheme_of(url: str) -> str:
    """Return the scheme without parsing the rest.

    A parser's error would repeat what it did not understand, which may be a password.
    """
    return url.partition(":")[0].lower() if "://" in url else ""


def path_of(address: str) -> str:
    """Return the path in the address of a file or folder."""
    parts = urlsplit(address)
    if parts.netloc or parts.query or not parts.path:
        raise ValueError("this is not the address of a file: use file:///…, and %3F for a ?")
    return unquote(parts.path)
