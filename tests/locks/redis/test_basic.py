"""The basic lock: a key without an owner."""

import asyncio
import gc
from typing import Any

import pytest
import redis

from inturn.locks import (
    AsyncBasicLock,
    BasicLock,
    SmartLock,
)
from tests.locks.conftest import Async

KEY = "inturn:{it}"


@pytest.mark.statement("B1")
def test_value_is_arbitrary_while_held_and_the_key_deleted_on_release(
    conn: "redis.Redis",
) -> None:
    with BasicLock(conn, "it", value="whatever you like"):
        assert conn.get(KEY) == "whatever you like"
    assert conn.exists(KEY) == 0


@pytest.mark.statement("B2")
def test_value_is_1_by_default(conn: "redis.Redis") -> None:
    with BasicLock(conn, "it"):
        assert conn.get(KEY) == "1"


@pytest.mark.statement("B3")
def test_expiry_is_optional_and_none_by_default(conn: "redis.Redis") -> None:
    with BasicLock(conn, "it"):
        assert conn.pttl(KEY) == -1
    with BasicLock(conn, "it", ttl=20):
        assert 0 < conn.pttl(KEY) <= 20_000


@pytest.mark.statement("B4")
def test_a_stuck_one_is_broken_by_hand(client: "redis.Redis") -> None:
    BasicLock(client, "it").acquire()
    assert BasicLock(client, "it").break_()
    with BasicLock(client, "it", timeout=0):
        pass


@pytest.mark.statement("B5")
def test_anyones_release_deletes_it(client: "redis.Redis") -> None:
    BasicLock(client, "it").acquire()
    BasicLock(client, "it").release()
    assert not BasicLock(client, "it").locked()
    assert not isinstance(BasicLock(client, "it"), SmartLock)


@pytest.mark.statement("B5")
def test_a_lock_released_inside_its_with_is_not_released_again_under_the_next_holder(
    client: "redis.Redis",
) -> None:
    lock, next_one = BasicLock(client, "it"), BasicLock(client, "it")
    with lock as lease:
        lock.release()
        assert lease is not None
        assert lease.released
        assert next_one.acquire(timeout=0)
    assert next_one.locked()


@pytest.mark.statement("B5")
def test_async_a_loop_forgets_leases_that_were_released_through_their_lock(
    with_async: Async,
) -> None:
    async def timers_left(client: Any) -> int:
        lock = AsyncBasicLock(client, "it", ttl=60)
        for _ in range(300):
            await lock.acquire()
            await lock.release()
        return sum(type(item) is asyncio.TimerHandle for item in gc.get_objects())

    assert with_async(timers_left) < 200
