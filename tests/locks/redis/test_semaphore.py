"""The semaphore: N permits, first come, first served."""

import threading
import time
from typing import Any
from unittest import mock

import pytest
import redis

from inturn.locks import Semaphore
from inturn.locks.core.contender import Grant, Refusal
from inturn.locks.core.protocol import run
from inturn.locks.redis import semaphore as semaphore_module
from tests.locks.conftest import Spawn, in_threads, until


@pytest.mark.statement("T13")
def test_one_more_than_the_limit_is_refused_without_waiting(client: "redis.Redis") -> None:
    semaphore = Semaphore(client, "it", 3)
    assert all(semaphore.acquire(blocking=False) for _ in range(3))
    began = time.monotonic()
    assert semaphore.acquire(blocking=False) is None
    assert time.monotonic() - began < 20


@pytest.mark.statement("T14")
def test_expired_permits_leave_first(client: "redis.Redis") -> None:
    dying = Semaphore(client, "it", 2, renew=False)
    dying.acquire()
    dying.acquire()
    permits: Any = client.zrange("inturn:{it}:permits", 0, -1)
    client.zadd("inturn:{it}:permits", dict.fromkeys(permits, 1))  # their time is over
    assert client.zcard("inturn:{it}:permits") == 2  # they are still stored
    assert Semaphore(client, "it", 2).acquire(blocking=False)
    assert client.zcard("inturn:{it}:permits") == 1


@pytest.mark.statement("T15")
def test_first_come_first_served_even_when_a_clock_is_behind(
    client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(semaphore_module, "PATIENCE_MS", 60_000)  # no waiter counts as dead
    held = Semaphore(client, "it", 1).acquire()
    assert held is not None
    served: list[int] = []

    def wait(number: int, clock: float) -> Any:
        def body() -> None:
            until(lambda: client.zcard("inturn:{it}:queue") == number)
            # Each caller's clock is further behind, so by their clocks the last one came first.
            with Semaphore(client, "it", 1, timeout=20, clock=lambda: time.monotonic() - clock):
                served.append(number)

        return body

    def release() -> None:
        until(lambda: client.zcard("inturn:{it}:queue") == 4)
        held.release()

    with mock.patch("time.time", return_value=0.0):
        in_threads(release, *[wait(number, 1000.0 * number) for number in range(4)])
    assert served == [0, 1, 2, 3]


@pytest.mark.statement("T15")
def test_a_caller_that_does_not_wait_does_not_overtake(
    client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(semaphore_module, "PATIENCE_MS", 60_000)
    held = Semaphore(client, "it", 1).acquire()
    assert held is not None
    waiter = Semaphore(client, "it", 1)
    first = waiter.new_contender()
    # It is in the queue now, and has not looked again yet.
    refused = run(first.take(10.0), waiter.port())
    assert isinstance(refused, Refusal)
    held.release()
    assert Semaphore(client, "it", 1).acquire(blocking=False) is None
    assert isinstance(run(first.take(10.0), waiter.port()), Grant)


@pytest.mark.landing
@pytest.mark.statement("T15")
def test_a_waiter_that_died_is_passed_over(conn: "redis.Redis", socket: str, spawn: Spawn) -> None:
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


@pytest.mark.statement("T16")
def test_refresh_is_true_while_ours_else_false_and_cleans_up(client: "redis.Redis") -> None:
    semaphore = Semaphore(client, "it", 2, ttl=60)
    assert not semaphore.refresh()
    semaphore.acquire()
    assert semaphore.refresh()
    dying = Semaphore(client, "it", 2, ttl=0.1, renew=False)
    dying.acquire()
    until(lambda: client.eval(ENDED, 1, "inturn:{it}:permits"))
    assert not dying.refresh()
    assert client.zcard("inturn:{it}:permits") == 1
    assert semaphore.refresh()


@pytest.mark.statement("T16")
def test_refresh_is_false_if_another_process_has_released_it(
    client: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    semaphore = Semaphore(client, "it", 1)
    lease = semaphore.acquire()
    assert lease is not None
    other = spawn(
        "import sys, redis; from inturn.locks import Semaphore\n"
        "client = redis.Redis(unix_socket_path=sys.argv[1])\n"
        "Semaphore(client, 'it', 1).from_handle(sys.argv[2]).release()",
        socket,
        lease.handle(),
    )
    assert other.process.wait(30) == 0
    assert not semaphore.refresh()


ENDED = """
local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], '-inf', time[1] * 1000 + math.floor(time[2] / 1000))"""


@pytest.mark.statement("T17")
def test_fifty_threads_are_never_more_than_three(client: "redis.Redis") -> None:
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
