"""Several locks at once, with `lock_all`."""

import time
from typing import Any

import pytest
import redis

from inturn.locks import (
    AsyncSmartLock,
    LockDeadlock,
    LockLost,
    LockTimeout,
    SmartLock,
    lock_all,
)
from tests.locks.conftest import Async, in_threads


def test_lock_all_is_sorted_so_that_opposite_orders_do_not_deadlock(client: "redis.Redis") -> None:
    def use(names: list[str]) -> None:
        for _ in range(20):
            with lock_all([SmartLock(client, name) for name in names], timeout=25) as leases:
                assert [lease.name for lease in leases] == names

    in_threads(lambda: use(["a", "b", "c"]), lambda: use(["c", "b", "a"]))


def test_lock_all_takes_all_or_nothing_within_one_deadline(client: "redis.Redis") -> None:
    with SmartLock(client, "c", host="another"):
        began = time.monotonic()
        with (
            pytest.raises(LockTimeout, match="'c'"),
            lock_all([SmartLock(client, n) for n in "abc"], timeout=0.2),
        ):
            pytest.fail("it ran")
        assert 0.2 <= time.monotonic() - began < 20
        assert not SmartLock(client, "a").locked()
        assert not SmartLock(client, "b").locked()


def test_lock_all_refuses_one_lock_twice(client: "redis.Redis") -> None:
    with pytest.raises(LockDeadlock):
        lock_all([SmartLock(client, "a"), SmartLock(client, "b"), SmartLock(client, "a")])


def test_lock_all_async(with_async: Async) -> None:
    async def body(client: Any) -> None:
        async with lock_all([AsyncSmartLock(client, name) for name in "ba"]) as leases:
            assert [lease.name for lease in leases] == ["b", "a"]
            with pytest.raises(LockTimeout):
                async with lock_all([AsyncSmartLock(client, name) for name in "za"], timeout=0.05):
                    pytest.fail("it ran")
            assert not await AsyncSmartLock(client, "z").locked()
        assert not await AsyncSmartLock(client, "a").locked()

    with_async(body)


def test_an_error_of_the_body_counts_more_than_a_lost_lock(
    conn: "redis.Redis", with_async: Async
) -> None:
    with pytest.raises(LockLost), lock_all([SmartLock(conn, "a")]):
        SmartLock(conn, "a").break_()
    with pytest.raises(ZeroDivisionError), lock_all([SmartLock(conn, name) for name in "ab"]):
        SmartLock(conn, "a").break_()
        print(1 / 0)
    assert not SmartLock(conn, "b").locked()

    async def body(client: Any) -> None:
        with pytest.raises(ZeroDivisionError):
            async with lock_all([AsyncSmartLock(client, name) for name in "ab"]):
                await AsyncSmartLock(client, "a").break_()
                print(1 / 0)

    with_async(body)
