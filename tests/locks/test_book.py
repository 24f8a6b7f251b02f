"""Statements T: the book's locks with timeouts, and its semaphore."""

import threading
import time
from typing import Any
from unittest import mock

import pytest
import redis

from inturn.locks import Semaphore, SmartLock, acquire_lock_with_timeout, release_lock
from inturn.locks.core.contender import Grant, Refusal
from inturn.locks.core.protocol import run
from tests.locks.conftest import Spawn, in_threads, until

HOLD = """
import sys, redis
from inturn.locks import acquire_lock_with_timeout
conn = redis.Redis(unix_socket_path=sys.argv[1])
print(acquire_lock_with_timeout(conn, "it", lock_timeout=float(sys.argv[2])), flush=True)
sys.stdin.readline()
"""


def test_T1_a_crashed_holders_lock_frees_itself(conn: "redis.Redis", socket: str, spawn: Spawn) -> None:
    holder = spawn(HOLD, socket, 1)
    holder.line()
    holder.kill()
    assert acquire_lock_with_timeout(conn, "it", acquire_timeout=10)


def test_T2_it_returns_an_identifier_or_false(client: "redis.Redis") -> None:
    identifier = acquire_lock_with_timeout(client, "it")
    assert isinstance(identifier, str)
    assert 9_000 < client.pttl("lock:it") <= 10_000
    began = time.monotonic()
    assert acquire_lock_with_timeout(client, "it", acquire_timeout=0.1) is False
    assert 0.1 <= time.monotonic() - began < 2


def test_T3_identifiers_have_128_random_bits(client: "redis.Redis") -> None:
    seen = {acquire_lock_with_timeout(client, f"it{n}") for n in range(100)}
    assert len(seen) == 100
    assert all(len(bytes.fromhex(str(one))) == 16 for one in seen)
    ones = sum(bin(int(str(one), 16)).count("1") for one in seen)
    assert 5_800 < ones < 7_000  # every bit is random: 6,400 of 12,800; a version-4 UUID repeats six of them
    assert all(len({str(one)[place] for one in seen}) > 4 for place in range(32))


def test_T4_lock_timeout_is_rounded_up_and_never_0(client: "redis.Redis") -> None:
    for given, lives in ((0.2, 1), (1, 1), (1.1, 2)):
        client.delete("lock:it")
        acquire_lock_with_timeout(client, "it", lock_timeout=given)
        assert (lives - 1) * 1000 < client.pttl("lock:it") <= lives * 1000
    with pytest.raises(ValueError, match="more than 0"):
        acquire_lock_with_timeout(client, "it", lock_timeout=0)


def test_T5_a_key_without_expiry_is_repaired_by_the_next_waiter(client: "redis.Redis") -> None:
    client.set("lock:it", "of one that crashed between two commands")
    assert acquire_lock_with_timeout(client, "it", acquire_timeout=0, lock_timeout=0.5) is False
    assert 0 < client.pttl("lock:it") <= 1_000
    assert acquire_lock_with_timeout(client, "it", acquire_timeout=10)


def test_T6_several_repairers_are_harmless(conn: "redis.Redis") -> None:
    conn.set("lock:it", "of one that crashed")
    won = in_threads(
        *[lambda: acquire_lock_with_timeout(conn, "it", acquire_timeout=1.6, lock_timeout=1) for _ in range(8)]
    )
    assert len([one for one in won if one]) == 1


def test_T7_a_rightful_holder_is_never_shortened(client: "redis.Redis") -> None:
    acquire_lock_with_timeout(client, "it", lock_timeout=100)
    acquire_lock_with_timeout(client, "it", acquire_timeout=0.05, lock_timeout=1)
    assert client.pttl("lock:it") > 90_000


def test_T8_value_and_expiry_are_set_in_one_step(conn: "redis.Redis") -> None:
    watched: Any = conn
    with watched.monitor() as monitor:
        acquire_lock_with_timeout(conn, "it")
        for seen in monitor.listen():
            if seen["command"].startswith("SET lock:it"):
                break
    assert seen["command"].endswith("PX 10000")
    assert seen["client_type"] == "lua"  # and the script decided in the same step that it was free


def test_T9_release_is_true_if_ours_and_false_if_lost(client: "redis.Redis") -> None:
    identifier = acquire_lock_with_timeout(client, "it")
    assert identifier
    assert release_lock(client, "it", "another's") is False
    assert release_lock(client, "it", identifier) is True
    later = acquire_lock_with_timeout(client, "it")
    assert later
    client.delete("lock:it")
    assert release_lock(client, "it", later) is False


def test_T10_the_key_is_lock_and_the_name(conn: "redis.Redis") -> None:
    identifier = acquire_lock_with_timeout(conn, "it")
    assert conn.keys("*") == ["lock:it"]
    assert conn.get("lock:it") == identifier


def test_T11_locks_are_advisory(conn: "redis.Redis") -> None:
    assert acquire_lock_with_timeout(conn, "it")
    conn.set("whatever it protects", "written all the same")
    conn.set("lock:it", "even this")
    assert conn.mget("whatever it protects", "lock:it") == ["written all the same", "even this"]


def test_T12_held_too_long(client: "redis.Redis") -> None:
    slow = SmartLock(client, "it", ttl=0.2, renew=False, host="slow")
    lease = slow.acquire()
    assert lease is not None
    with SmartLock(client, "it", host="next", timeout=10) as successor:
        assert lease.lost.wait(10)
        assert successor is not None
        assert (successor.fence or 0) > (lease.fence or 0)


def test_T12_crash(conn: "redis.Redis", socket: str, spawn: Spawn) -> None:
    holder = spawn(HOLD, socket, 1)
    holder.line()
    holder.kill()
    assert acquire_lock_with_timeout(conn, "it", acquire_timeout=0) is False
    assert acquire_lock_with_timeout(conn, "it", acquire_timeout=10)


def test_T12_several_take_an_expired_lock_at_once(client: "redis.Redis") -> None:
    for _ in range(5):
        SmartLock(client, "it", ttl=0.05, renew=False, host="dead").acquire()
        until(lambda: not client.exists("inturn:{it}"))
        leases = in_threads(*[lambda n=n: SmartLock(client, "it", host=f"h{n}").acquire(timeout=0) for n in range(8)])
        assert len([lease for lease in leases if lease]) == 1
        client.delete("inturn:{it}")


def test_T12_held_too_long_and_crash_and_several(conn: "redis.Redis", socket: str, spawn: Spawn) -> None:
    holder = spawn(HOLD, socket, 1)
    holder.line()
    holder.kill()
    won = in_threads(
        *[lambda: acquire_lock_with_timeout(conn, "it", acquire_timeout=2, lock_timeout=5) for _ in range(6)]
    )
    winners = [one for one in won if one]
    assert len(winners) == 1
    assert release_lock(conn, "it", winners[0])


# ---------------------------------------------------------------- semaphore


def test_T13_the_one_after_the_limit_is_refused_without_waiting(client: "redis.Redis") -> None:
    semaphore = Semaphore(client, "it", 3)
    assert all(semaphore.acquire(blocking=False) for _ in range(3))
    began = time.monotonic()
    assert semaphore.acquire(blocking=False) is None
    assert time.monotonic() - began < 1


def test_T14_expired_permits_leave_first(client: "redis.Redis") -> None:
    dying = Semaphore(client, "it", 2, ttl=0.1, renew=False)
    dying.acquire()
    dying.acquire()
    last = float(client.zrange("inturn:{it}:permits", -1, -1, withscores=True)[0][1])
    until(lambda: client.time()[0] * 1000 + client.time()[1] // 1000 > last)
    assert client.zcard("inturn:{it}:permits") == 2  # nobody has removed them
    assert Semaphore(client, "it", 2).acquire(blocking=False)
    assert client.zcard("inturn:{it}:permits") == 1


def test_T15_first_come_first_served_even_when_a_clock_is_behind(client: "redis.Redis") -> None:
    held = Semaphore(client, "it", 1).acquire()
    assert held is not None
    served: list[int] = []

    def wait(number: int, clock: float) -> Any:
        def body() -> None:
            until(lambda: client.zcard("inturn:{it}:queue") == number)
            # Each caller's clock is further behind, so that by their clocks the last came first.
            with Semaphore(client, "it", 1, timeout=20, clock=lambda: time.monotonic() - clock):
                served.append(number)

        return body

    def release() -> None:
        until(lambda: client.zcard("inturn:{it}:queue") == 4)
        held.release()

    with mock.patch("time.time", return_value=0.0):
        in_threads(release, *[wait(number, 1000.0 * number) for number in range(4)])
    assert served == [0, 1, 2, 3]


def test_T15_who_does_not_wait_does_not_overtake(client: "redis.Redis") -> None:
    held = Semaphore(client, "it", 1).acquire()
    assert held is not None
    waiter = Semaphore(client, "it", 1)
    first = waiter.new_contender()
    refused = run(first.take(10.0), waiter.port())  # it stands in the queue, and has not looked again yet
    assert isinstance(refused, Refusal)
    held.release()
    assert Semaphore(client, "it", 1).acquire(blocking=False) is None
    assert isinstance(run(first.take(10.0), waiter.port()), Grant)


def test_T15_a_waiter_that_died_is_passed_over(conn: "redis.Redis", socket: str, spawn: Spawn) -> None:
    held = Semaphore(conn, "it", 1).acquire()
    dead = spawn(
        "import sys, redis; from inturn.locks import Semaphore\n"
        "Semaphore(redis.Redis(unix_socket_path=sys.argv[1]), 'it', 1).acquire()",
        socket,
    )
    until(lambda: conn.zcard("inturn:{it}:queue") == 1)
    dead.kill()
    assert held is not None
    held.release()
    with Semaphore(conn, "it", 1, timeout=20) as lease:
        assert lease is not None
        assert conn.zrange("inturn:{it}:permits", 0, -1) == [lease.lock_id]
        assert conn.zcard("inturn:{it}:queue") == 0


def test_T16_refresh_is_true_while_ours_else_false_and_cleans_up(client: "redis.Redis") -> None:
    semaphore = Semaphore(client, "it", 2, ttl=5)
    assert not semaphore.refresh()
    semaphore.acquire()
    assert semaphore.refresh()
    dying = Semaphore(client, "it", 2, ttl=0.1, renew=False)
    dying.acquire()
    until(lambda: client.eval(ENDED, 1, "inturn:{it}:permits"))
    assert not dying.refresh()
    assert client.zcard("inturn:{it}:permits") == 1
    assert semaphore.refresh()


ENDED = """
local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], '-inf', time[1] * 1000 + math.floor(time[2] / 1000))"""


def test_T17_fifty_threads_are_never_more_than_three(client: "redis.Redis") -> None:
    inside, most, counting = 0, 0, threading.Lock()

    def enter() -> None:
        nonlocal inside, most
        with Semaphore(client, "it", 3, timeout=25):
            with counting:
                inside += 1
                most = max(most, inside)
            time.sleep(0.005)  # the work
            with counting:
                inside -= 1

    in_threads(*[enter] * 50)
    assert most == 3
