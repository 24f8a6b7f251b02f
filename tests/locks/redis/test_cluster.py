"""Locks in a Redis Cluster. The keys of a lock share a slot, so its scripts can run there."""

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import redis
import redis.asyncio

from inturn.locks import (
    AsyncBasicLock,
    AsyncSemaphore,
    AsyncSmartLock,
    AsyncTokenLock,
    BasicLock,
    Semaphore,
    SmartLock,
    TokenLock,
    acquire_lock_with_timeout,
    release_lock,
)
from tests.locks import redis_server
from tests.locks.conftest import at_any_pace, in_threads
from tests.locks.redis_cluster import cluster

NAMES = [f"it{n}" for n in range(12)]  # on all nodes


@pytest.fixture(
    scope="module", params=redis_server.binaries().values(), ids=list(redis_server.binaries())
)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with cluster(request.param) as port:
        yield port


@pytest.fixture
def client(port: int) -> "Iterator[redis.RedisCluster]":
    with contextlib.closing(redis.RedisCluster(host="127.0.0.1", port=port)) as client:
        client.flushall(target_nodes=redis.RedisCluster.ALL_NODES)
        client.script_flush()
        yield client


@pytest.mark.parametrize(
    "kind",
    [SmartLock, BasicLock, lambda client, name: Semaphore(client, name, 1)],
    ids=["smart", "basic", "semaphore"],
)
def test_one_holds_it_and_another_waits_for_it(client: "redis.RedisCluster", kind: Any) -> None:
    for name in NAMES:
        lock, other = kind(client, name), kind(client, name)
        lease = lock.acquire(timeout=0)
        assert lock.locked()
        assert other.acquire(timeout=0) is None
        gained, _ = in_threads(lambda: other.acquire(timeout=20), lease.release)  # noqa: B023 (called at once)
        gained.release()
        assert not lock.locked()


@pytest.mark.parametrize("kind", [SmartLock, BasicLock])
def test_it_can_be_broken(client: "redis.RedisCluster", kind: Any) -> None:
    for name in NAMES:
        lock = kind(client, name)
        lock.acquire(timeout=0)
        assert lock.break_()
        assert not lock.locked()


def test_its_fence_grows_and_it_is_renewed(client: "redis.RedisCluster") -> None:
    def use(name: str, scale: float) -> None:
        lock = SmartLock(client, f"{name}:{scale}", ttl=1.0 * scale)
        with lock as lease:
            assert lease is not None
            assert lease.fence == 1
            assert not lease.lost.wait(1.5 * scale)
            assert lease.owned()
        with lock as lease:
            assert lease is not None
            assert lease.fence == 2

    for name in NAMES[:3]:
        at_any_pace(partial(use, name))


def test_the_drop_ins_work(client: "redis.RedisCluster") -> None:
    for name in NAMES:
        with TokenLock(client, name, timeout=10) as lock:
            assert not TokenLock(client, name).acquire(blocking=False)
            lock.extend(5)
            lock.reacquire()
        identifier = acquire_lock_with_timeout(client, name)
        assert identifier
        assert release_lock(client, name, identifier)


def test_tasks_hold_it_in_turn(port: int, client: "redis.RedisCluster") -> None:
    async def main() -> None:
        async with redis.asyncio.RedisCluster(host="127.0.0.1", port=port) as client:
            for name in NAMES:
                for make in (
                    AsyncSmartLock,
                    AsyncBasicLock,
                    lambda c, n: AsyncSemaphore(c, f"s{n}", 1),
                    AsyncTokenLock,
                ):
                    lock: Any = make(client, name)
                    async with lock:
                        assert await lock.locked()
                    assert not await lock.locked()

    asyncio.run(main())
