"""A store that accepts a connection and never answers.

A caller learns of it at about the time when it would have stopped waiting.
"""

import asyncio
import socket as sockets
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from inturn.locks import AsyncPgLock, LockBackendError, PgLock, install, lock_from_url
from inturn.locks.core.lease import Lease
from inturn.locks.postgres import ports as pg_port
from tests.locks.conftest import at_any_pace
from tests.lossy import reach
from tests.proxy import Faulty
from tests.waiting import within

PATIENCE = 2.0  # seconds for which the callers here would wait for a lock
GENEROUS = 20.0  # seconds; a client without limits would wait for minutes


@pytest.fixture
def before_redis(socket: str) -> Iterator[tuple[Faulty, str]]:
    def connect() -> sockets.socket:
        far = sockets.socket(sockets.AF_UNIX)
        far.connect(socket)
        return far

    with Faulty(connect) as proxy:
        yield proxy, f"redis://127.0.0.1:{proxy.port}/0#it"


@pytest.fixture
def before_postgresql(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Faulty, str]]:
    monkeypatch.setattr(pg_port, "TIMEOUT", 0.5)
    install(empty_dsn)
    with Faulty(partial(reach, conninfo_to_dict(empty_dsn))) as proxy:
        yield proxy, make_conninfo(empty_dsn, host="127.0.0.1", port=proxy.port, sslmode="disable")


@pytest.mark.parametrize(
    "is_connected", [False, True], ids=["before it is reached", "between two calls"]
)
def test_a_silent_redis_costs_seconds(before_redis: tuple[Faulty, str], is_connected: bool) -> None:
    proxy, url = before_redis
    lock = lock_from_url(url)
    if is_connected:
        with lock:
            pass
    proxy.fall_silent()
    before = proxy.accepted
    with within(GENEROUS), pytest.raises(LockBackendError, match="Redis cannot be reached"):
        lock.acquire(timeout=PATIENCE)
    assert proxy.accepted - before == (not is_connected), (
        "it was asked again when the time was over"
    )
    proxy.heal()
    with within(GENEROUS), lock:
        pass


def test_a_silent_redis_costs_tasks_seconds(before_redis: tuple[Faulty, str]) -> None:
    proxy, url = before_redis

    async def main() -> None:
        lock = lock_from_url(url, asynchronous=True)
        async with lock:
            pass
        proxy.fall_silent()
        with within(GENEROUS), pytest.raises(LockBackendError, match="Redis cannot be reached"):
            await lock.acquire(timeout=PATIENCE)

    asyncio.run(main())


def hold(lock: PgLock) -> Lease:
    """Acquire it. The limit here may be too short once, while the machine stalls."""
    with suppress(LockBackendError):
        if lease := lock.acquire():
            return lease
    lease = lock.acquire()
    assert lease is not None
    return lease


@pytest.mark.landing
@pytest.mark.parametrize("mode", ["session", "table"])
@pytest.mark.parametrize(
    "is_connected", [False, True], ids=["before it is reached", "while it is held"]
)
def test_a_silent_postgresql_costs_seconds(
    before_postgresql: tuple[Faulty, str], mode: Any, is_connected: bool
) -> None:
    proxy, dsn = before_postgresql
    lock = PgLock(dsn, "it", mode=mode, renew=False)
    if is_connected:
        lease = hold(lock)
        proxy.fall_silent()
        with within(GENEROUS), pytest.raises(LockBackendError, match=r"no answer|timeout expired"):
            lease.owned()
    else:
        proxy.fall_silent()
    before = proxy.accepted
    with within(GENEROUS), pytest.raises(LockBackendError, match="timeout expired"):
        lock.acquire(timeout=PATIENCE)
    assert proxy.accepted - before == 1, "it was asked again when the time was over"


@pytest.mark.landing
def test_a_silent_postgresql_costs_tasks_seconds(before_postgresql: tuple[Faulty, str]) -> None:
    proxy, dsn = before_postgresql

    async def main() -> None:
        lease = await AsyncPgLock(dsn, "it", mode="table", renew=False).acquire()
        assert lease is not None
        proxy.fall_silent()
        with within(GENEROUS), pytest.raises(LockBackendError, match=r"no answer|timeout expired"):
            await lease.owned()

    asyncio.run(main())


def test_a_long_wait_for_an_advisory_lock_does_not_count_as_silence(
    before_postgresql: tuple[Faulty, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, dsn = before_postgresql

    def wait(scale: float) -> None:
        monkeypatch.setattr(pg_port, "TIMEOUT", 0.5 * scale)
        with PgLock(dsn, "it", timeout=30):
            began = time.monotonic()
            assert PgLock(dsn, "it").acquire(timeout=PATIENCE * scale) is None
            assert time.monotonic() - began >= PATIENCE * scale

    at_any_pace(wait)
