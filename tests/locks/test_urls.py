"""Locks by address."""

from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from inturn.locks import (
    AsyncKernelFileLock,
    AsyncPgLock,
    AsyncSemaphore,
    AsyncSmartLock,
    BasicLock,
    KernelFileLock,
    PgLock,
    SmartLock,
    TokenLock,
    lock_from_url,
)


def test_addresses_make_the_lock_of_their_store(socket: str, tmp_path: Path) -> None:
    cases: list[tuple[str, Any, Any, str]] = [
        (f"unix://{socket}#it", SmartLock, AsyncSmartLock, "it"),
        ("redis://localhost:1/0#a%20b", SmartLock, AsyncSmartLock, "a b"),
        (f"file://{tmp_path}/it.lock", KernelFileLock, AsyncKernelFileLock, f"{tmp_path}/it.lock"),
        (f"file://{tmp_path}#a/b", KernelFileLock, AsyncKernelFileLock, f"{tmp_path}/a_b"),
        ("postgresql://host/db#it", PgLock, AsyncPgLock, "it"),
    ]
    for url, kind, async_kind, name in cases:
        assert type(lock_from_url(url)) is kind
        assert type(lock_from_url(url, asynchronous=True)) is async_kind
        assert lock_from_url(url).name == name


def test_a_lock_is_shown_by_its_name_and_its_store_and_never_by_its_address() -> None:
    client = Redis.from_url("redis://:hunter@localhost:1/0")
    for lock, shown in (
        (SmartLock(client, "a"), "<SmartLock 'a' in Redis>"),
        (AsyncSemaphore(client, "a", 2), "<AsyncSemaphore 'a' in Redis>"),
        (BasicLock(client, "a"), "<BasicLock 'a' in Redis>"),
        (TokenLock(client, "a"), "<TokenLock 'a' in Redis>"),
        (lock_from_url("postgresql://u:hunter@host/db#a"), "<PgLock 'a' in PostgreSQL>"),
        (lock_from_url("file:///run/a.lock"), "<KernelFileLock '/run/a.lock' on this machine>"),
    ):
        assert repr(lock) == shown
    assert lock_from_url("redis://localhost#it", ttl=5).settings.ttl == 5


@pytest.mark.parametrize(
    ("url", "reason"),
    {
        "redis://localhost/0": "must end with its name: redis://…#name",
        "postgresql://host/db": "must end with its name: postgresql://…#name",
        "ftp://host#it": "ftp://… is not a lock's address: use redis",
        "foo://x": "foo://… is not a lock's address: use redis",
        "it": "this is not a lock's address: use redis",
        "": "this is not a lock's address: use redis",
        "file://run/it.lock": "not the address of a file: use file:///",
        "file://#it": "not the address of a file: use file:///",
        "file:///run/a?b": "%3F for a \\?",
    }.items(),
)
def test_addresses_of_nothing_are_refused(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        lock_from_url(url)
