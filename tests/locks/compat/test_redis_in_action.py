"""The two functions of the book "Redis in Action", and what they must not get wrong."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis

from inturn.locks import SmartLock, acquire_lock_with_timeout, release_lock
from tests.locks.conftest import Spawn, in_threads, until

HOLD = """
import sys, redis
from inturn.locks import acquire_lock_with_timeout
conn = redis.Redis(unix_socket_path=sys.argv[1])
print(acquire_lock_with_timeout(conn, "it", lock_timeout=float(sys.argv[2])), flush=True)
sys.stdin.readline()
"""


def watch_set(conn: "redis.Redis", call: Callable[[], object]) -> dict[str, Any]:
    """Return how the call sets the lock's key."""
    watched: Any = conn
    with watched.monitor() as monitor:
        call()
        for seen in monitor.listen():
            if seen["command"].startswith("SET lock:it"):
                return dict(seen)
    raise AssertionError


@pytest.mark.landing
@pytest.mark.statement("T1")
def test_a_crashed_holders_lock_frees_itself(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(HOLD, socket, 1)
    holder.line()
    holder.kill()
    assert acquire_lock_with_timeout(conn, "it", acquire_timeout=10)


@pytest.mark.statement("T2")
def test_it_returns_an_identifier_or_false(client: "redis.Redis") -> None:
    identifier = acquire_lock_with_timeout(client, "it")
    assert isinstance(identifier, str)
    assert 0 < client.pttl("lock:it") <= 10_000
    began = time.monotonic()
    assert acquire_lock_with_timeout(client, "it", acquire_timeout=0.1) is False
    assert 0.1 <= time.monotonic() - began < 9


@pytest.mark.statement("T3")
def test_identifiers_have_128_random_bits(client: "redis.Redis") -> None:
    seen = {acquire_lock_with_timeout(client, f"it{n}") for n in range(100)}
    assert len(seen) == 100
    assert all(len(bytes.fromhex(str(one))) == 16 for one in seen)
    ones = sum(bin(int(str(one), 16)).count("1") for one in seen)
    # If every bit is random, about 6,400 of 12,800 are ones. A version-4 UUID fixes six of them.
    assert 5_800 < ones < 7_000
    assert all(len({str(one)[place] for one in seen}) > 4 for place in range(32))


@pytest.mark.statement("T4")
def test_lock_timeout_is_rounded_up_and_never_0(client: "redis.Redis", conn: "redis.Redis") -> None:
    for given, lives in ((0.2, 1), (1, 1), (1.1, 2)):
        client.delete("lock:it")
        take = partial(acquire_lock_with_timeout, client, "it", lock_timeout=given)
        assert watch_set(conn, take)["command"].endswith(f" PX {lives * 1000}")
    with pytest.raises(ValueError, match="more than 0"):
        acquire_lock_with_timeout(client, "it", lock_timeout=0)


@pytest.mark.statement("T5")
def test_a_key_without_expiry_is_repaired_by_the_next_waiter(client: "redis.Redis") -> None:
    client.set("lock:it", "of one that crashed between two commands")
    assert acquire_lock_with_timeout(client, "it", acquire_timeout=0, lock_timeout=0.5) is False
    assert -1 != client.pttl("lock:it") <= 1_000  # it may be over already
    assert acquire_lock_with_timeout(client, "it", acquire_timeout=10)


@pytest.mark.statement("T5")
def test_what_is_not_a_lock_gets_no_expiry(client: "redis.Redis") -> None:
    client.rpush("lock:it", "precious")
    assert acquire_lock_with_timeout(client, "it", acquire_timeout=0) is False
    assert client.ttl("lock:it") == -1


@pytest.mark.statement("T6")
def test_several_repairers_are_harmless(conn: "redis.Redis") -> None:
    def take() -> Any:
        return acquire_lock_with_timeout(conn, "it", acquire_timeout=0, lock_timeout=60)

    conn.set("lock:it", "of one that crashed")
    assert in_threads(*[take] * 8) == [False] * 8
    assert 0 < conn.pttl("lock:it") <= 60_000
    conn.pexpire("lock:it", 1)
    until(lambda: not conn.exists("lock:it"))
    assert len([one for one in in_threads(*[take] * 8) if one]) == 1


@pytest.mark.statement("T7")
def test_a_rightful_holder_is_never_shortened(client: "redis.Redis") -> None:
    acquire_lock_with_timeout(client, "it", lock_timeout=100)
    acquire_lock_with_timeout(client, "it", acquire_timeout=0.05, lock_timeout=1)
    assert client.pttl("lock:it") > 90_000


@pytest.mark.statement("T8")
def test_value_and_expiry_are_set_in_one_step(conn: "redis.Redis") -> None:
    seen = watch_set(conn, lambda: acquire_lock_with_timeout(conn, "it"))
    assert seen["command"].endswith("PX 10000")
    assert seen["client_type"] == "lua"  # the script that found it free also took it


@pytest.mark.statement("T9")
def test_release_is_true_if_ours_and_false_if_lost(client: "redis.Redis") -> None:
    identifier = acquire_lock_with_timeout(client, "it")
    assert identifier
    assert release_lock(client, "it", "another's") is False
    assert release_lock(client, "it", identifier) is True
    later = acquire_lock_with_timeout(client, "it")
    assert later
    client.delete("lock:it")
    assert release_lock(client, "it", later) is False


@pytest.mark.statement("T10")
def test_the_key_is_lock_and_the_name(conn: "redis.Redis") -> None:
    identifier = acquire_lock_with_timeout(conn, "it")
    assert conn.keys("*") == ["lock:it"]
    assert conn.get("lock:it") == identifier


@pytest.mark.statement("T11")
def test_locks_are_advisory(conn: "redis.Redis") -> None:
    assert acquire_lock_with_timeout(conn, "it")
    conn.set("whatever it protects", "written all the same")
    conn.set("lock:it", "even this")
    assert conn.mget("whatever it protects", "lock:it") == ["written all the same", "even this"]


@pytest.mark.statement("T12")
def test_held_too_long(client: "redis.Redis") -> None:
    slow = SmartLock(client, "it", ttl=0.2, renew=False, host="slow")
    lease = slow.acquire()
    assert lease is not None
    with SmartLock(client, "it", host="next", timeout=10) as successor:
        assert lease.lost.wait(10)
        assert successor is not None
        assert (successor.fence or 0) > (lease.fence or 0)


@pytest.mark.landing
@pytest.mark.statement("T12")
def test_crash(conn: "redis.Redis", socket: str, spawn: Spawn) -> None:
    holder = spawn(HOLD, socket, 60)
    holder.line()
    holder.kill()
    assert acquire_lock_with_timeout(conn, "it", acquire_timeout=0) is False
    conn.pexpire("lock:it", 500)
    assert acquire_lock_with_timeout(conn, "it", acquire_timeout=10)


@pytest.mark.statement("T12")
def test_several_take_an_expired_lock_at_once(client: "redis.Redis") -> None:
    for _ in range(5):
        SmartLock(client, "it", ttl=0.05, renew=False, host="dead").acquire()
        until(lambda: not client.exists("inturn:{it}"))
        leases = in_threads(
            *[
                lambda n=n: SmartLock(client, "it", host=f"h{n}").acquire(timeout=0)
                for n in range(8)
            ]
        )
        assert len([lease for lease in leases if lease]) == 1
        client.delete("inturn:{it}")


@pytest.mark.landing
@pytest.mark.statement("T12")
def test_held_too_long_and_crash_and_several(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(HOLD, socket, 1)
    holder.line()
    holder.kill()
    is_held = threading.Event()

    def take() -> Any:
        while True:
            if one := acquire_lock_with_timeout(conn, "it", acquire_timeout=2, lock_timeout=60):
                is_held.set()
            if is_held.is_set():
                return one

    winners = [one for one in in_threads(*[take] * 6) if one]
    assert len(winners) == 1
    assert release_lock(conn, "it", winners[0])
