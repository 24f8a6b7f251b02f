"""The watchdog's threads and dates. `test_contract.py` tests when leases are renewed and lost."""

import asyncio
import gc
import heapq
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import KeyedRef, ref

import pytest
import redis
import redis.asyncio

from inturn.locks import AsyncSmartLock, LockBackendError, SmartLock, sigterm
from inturn.locks.core import threads, watchdog
from inturn.locks.core.process import process
from inturn.locks.core.threads import RenewalThreads, TimerThread
from inturn.locks.sigterm import expire_soon
from tests.locks.conftest import at_any_pace
from tests.waiting import wait_until


@pytest.mark.usefixtures("renewed_soon")
def test_one_watchdog_serves_many_leases(client: "redis.Redis") -> None:
    def ours() -> set[str]:
        return {
            thread.name
            for thread in threading.enumerate()
            if thread.name.startswith("inturn-locks")
        }

    locks = [SmartLock(client, f"it{n}", ttl=60) for n in range(30)]
    leases = [lease for lock in locks if (lease := lock.acquire()) is not None]
    ends = [lease.expires for lease in leases]
    wait_until(lambda: all(lease.expires != end for lease, end in zip(leases, ends, strict=True)))
    assert ours() == {"inturn-locks-clock", "inturn-locks-renewal"}
    for lease in leases:
        lease.release()
    assert len(leases) == len(locks)


def test_a_signal_handler_can_take_a_lock_while_the_watchdog_hears_of_another(
    monkeypatch: Any,
) -> None:
    clock, notified, heappush = TimerThread(), threading.Event(), heapq.heappush

    def interrupted(*arguments: Any) -> None:  # in the middle of it, where a signal handler may run
        monkeypatch.setattr(heapq, "heappush", heappush)
        clock.after(0.0, notified.set)
        heappush(*arguments)

    monkeypatch.setattr(heapq, "heappush", interrupted)
    thread = threading.Thread(target=clock.after, args=(60.0, int), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert notified.wait(30)


class Looks(watchdog.FirstLooks):
    """First looks that happen when a test says so."""

    def __init__(self) -> None:
        self.dates: list[tuple[float, Callable[[], None]]] = []
        super().__init__(
            lambda seconds, action: self.dates.append((seconds, action)), watchdog.ThreadWatch
        )

    def come(self) -> None:
        self.dates.pop(0)[1]()

    @property
    def waits(self) -> list[float]:
        return [round(seconds, 1) for seconds, _ in self.dates]


@pytest.fixture
def looks(monkeypatch: Any) -> Looks:
    looks = Looks()
    monkeypatch.setattr(watchdog.watchdog, "of_threads", looks)
    return looks


def held(lock: SmartLock) -> Any:
    lease = lock.acquire(timeout=0)
    assert lease is not None
    return lease


def stopped() -> float:
    return 0.0


def test_locks_that_are_held_for_a_moment_leave_the_watchdog_asleep(
    client: "redis.Redis", looks: Looks
) -> None:
    """There is one date for all of them, and nothing piles up."""
    for n in range(50):
        with SmartLock(client, f"it{n}", ttl=30.0, clock=stopped):
            pass
    assert looks.waits == [10.0]
    with SmartLock(client, "short", ttl=3.0, clock=stopped):
        pass
    assert looks.waits == [10.0, 1.0]


def test_a_lock_that_comes_during_the_first_look_at_others_is_not_overlooked(
    client: "redis.Redis", looks: Looks, monkeypatch: Any
) -> None:
    now = [0.0]
    first = held(SmartLock(client, "first", clock=lambda: now[0]))
    now[0] += 10.0
    list_leases = process.list_leases

    def before_the_last_comes() -> Any:
        seen = list_leases()
        others.append(held(SmartLock(client, "last", clock=lambda: now[0])))
        return seen

    others: list[Any] = []
    monkeypatch.setattr(process, "list_leases", before_the_last_comes)
    looks.come()
    monkeypatch.setattr(process, "list_leases", list_leases)
    assert isinstance(first.watched_by, watchdog.ThreadWatch)
    now[0] += 10.0
    looks.come()
    assert isinstance(others[0].watched_by, watchdog.ThreadWatch)
    for lease in (first, *others):
        lease.release()


def test_a_look_at_one_lease_leaves_out_those_with_time_left(
    client: "redis.Redis", looks: Looks
) -> None:
    now = [0.0]
    short, long = (
        held(SmartLock(client, f"it{ttl}", ttl=ttl, clock=lambda: now[0])) for ttl in (3.0, 3600.0)
    )
    assert looks.waits == [1.0]
    now[0] += 1.0
    looks.come()
    assert isinstance(short.watched_by, watchdog.ThreadWatch)
    assert long.watched_by is looks
    assert looks.waits == [1199.0]
    short.release()
    long.release()


def test_a_date_that_an_interruption_prevented_is_made_by_the_next_lock(
    client: "redis.Redis", monkeypatch: Any
) -> None:
    made: list[float] = []

    def after(seconds: float, _: object) -> None:
        made.append(seconds)
        if len(made) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        watchdog.watchdog, "of_threads", watchdog.FirstLooks(after, watchdog.ThreadWatch)
    )
    with pytest.raises(KeyboardInterrupt):
        SmartLock(client, "it", ttl=0.3).acquire()
    time.sleep(0.15)
    with SmartLock(client, "other"):
        assert len(made) == 2


def test_extending_again_and_again_leaves_one_date(
    client: "redis.Redis", looks: Looks, monkeypatch: Any
) -> None:
    now = [0.0]
    lease = held(SmartLock(client, "it", clock=lambda: now[0]))
    now[0] += 10.0
    dates: list[float] = []
    monkeypatch.setattr(watchdog, "in_thread", lambda seconds, _: dates.append(seconds))
    monkeypatch.setattr(watchdog.ThreadWatch, "start_renewal", lambda *_: None)
    looks.come()
    before = len(dates)
    for _ in range(50):
        lease.extend(600)
    assert len(dates) == before
    lease.release()


class Silent:
    """A port that carries out every request and loses its reply."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def do(self, request: Any) -> Any:
        self._port.do(request)
        raise LockBackendError("gone", unclear=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def test_an_extension_to_an_earlier_end_counts_though_its_reply_was_lost(
    client: "redis.Redis",
) -> None:
    def extend(scale: float) -> None:
        lease = held(SmartLock(client, f"it{scale}"))
        port, lease.port = lease.port, Silent(lease.port)
        with pytest.raises(LockBackendError, match="gone"):
            lease.extend(0.9 * scale)
        assert lease.remaining() <= 0.9 * scale
        lease.port = port
        time.sleep(1.5 * scale)
        lease.ensure()
        lease.release()

    at_any_pace(extend)


def test_a_longer_life_that_was_not_granted_is_not_waited_for(client: "redis.Redis") -> None:
    lease = held(SmartLock(client, "it", ttl=30))
    port, lease.port = lease.port, Silent(lease.port)
    with pytest.raises(LockBackendError, match="gone"):
        lease.extend(600)
    assert watchdog.due_in(lease) <= 10.0
    lease.port = port
    lease.release()


def test_an_extension_waits_for_the_renewal_that_is_under_way(client: "redis.Redis") -> None:
    """Otherwise the store could hear the older request last, and we the newer reply last."""
    lease = held(SmartLock(client, "it", ttl=30))
    begun, go_on, asked = threading.Event(), threading.Event(), []

    class Slow(Silent):
        def do(self, request: Any) -> Any:
            asked.append(request.arguments[1])
            if len(asked) == 1:
                begun.set()
                assert go_on.wait(20)
            return self._port.do(request)

    port, lease.port = lease.port, Slow(lease.port)
    renewing, extending = (
        threading.Thread(target=lease.renew),
        threading.Thread(target=lease.extend, args=(600,)),
    )
    renewing.start()
    assert begun.wait(20)
    extending.start()
    time.sleep(0.2)
    assert asked == [30_000]
    go_on.set()
    renewing.join(20)
    extending.join(20)
    assert asked == [30_000, 600_000]
    assert lease.remaining() > 500
    lease.port = port
    lease.release()


def test_async_an_extension_waits_for_the_renewal_that_is_under_way(socket: str) -> None:
    asked: list[int] = []

    async def body() -> None:
        async with redis.asyncio.Redis(unix_socket_path=socket) as client:
            lease: Any = await AsyncSmartLock(client, "it", ttl=30).acquire()
            port, go_on = lease.port, asyncio.Event()

            class Slow(Silent):
                async def do(self, request: Any) -> Any:
                    asked.append(request.arguments[1])
                    if len(asked) == 1:
                        await go_on.wait()
                    return await self._port.do(request)

            lease.port = Slow(port)
            both = asyncio.gather(lease.renew(), lease.extend(600))
            await asyncio.sleep(0.1)
            assert asked == [30_000]
            go_on.set()
            await both
            assert asked == [30_000, 600_000]
            lease.port = port
            await lease.release()

    asyncio.run(body())


def test_after_a_failure_a_shorter_life_is_renewed_in_its_own_time(client: "redis.Redis") -> None:
    lease = held(SmartLock(client, "it", ttl=30))
    watch = watchdog.ThreadWatch(lease)
    watch.note_failure(lease, LockBackendError("silent"))
    lease.extend(9)
    assert watch._renew_at(lease) - lease.clock() <= 3.0
    lease.release()


def test_a_lease_that_is_to_expire_soon_notices_when_it_does(client: "redis.Redis") -> None:
    lease = held(SmartLock(client, "it", ttl=600))
    expire_soon(0.3)
    assert lease.lost.wait(10)


def test_a_silent_server_does_not_keep_the_leases_of_others_from_expiring_soon(
    client: "redis.Redis", conn: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sigterm, "PATIENCE", 1.0)
    silent, other = (
        held(SmartLock(redis, name, ttl=600))
        for redis, name in ((client, "silent"), (conn, "other"))
    )
    port, answers = silent.port, threading.Event()

    class Hanging(Silent):
        def do(self, request: Any) -> Any:
            answers.wait(30)
            return self._port.do(request)

    silent.port = Hanging(port)
    expire_soon(60)
    assert other.remaining() <= 60
    answers.set()
    for lease in (silent, other):
        lease.release()


def test_two_leases_with_one_lock_id_are_both_renewed(socket: str) -> None:
    async def body(scale: float) -> None:
        async with redis.asyncio.Redis(unix_socket_path=socket) as client:
            lease = await AsyncSmartLock(client, "it", ttl=0.6 * scale).acquire()
            assert lease is not None
            with redis.Redis(unix_socket_path=socket) as other:
                twin = SmartLock(other, "it", ttl=0.6 * scale).from_handle(lease.handle())
                await asyncio.sleep(1.5 * scale)
                lease.ensure()
                twin.ensure()
                await lease.release()

    at_any_pace(lambda scale: asyncio.run(body(scale)))


@pytest.mark.usefixtures("renewed_soon")
def test_a_client_is_forgotten_after_its_last_renewal(
    socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "IDLE", 0.1)

    def renew_once() -> "ref[Any]":
        with redis.Redis(unix_socket_path=socket) as client:
            with SmartLock(client, "it", ttl=60) as lease:
                assert lease is not None
                end = lease.expires
                wait_until(lambda: lease.expires != end)
            return ref(client.connection_pool)

    pool = renew_once()
    wait_until(lambda: gc.collect() >= 0 and pool() is None)


def test_the_watchdog_recovers_from_a_thread_that_could_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: object) -> None:
        monkeypatch.undo()
        raise RuntimeError("can't start new thread")

    timer, renewals = TimerThread(), RenewalThreads()
    begins: list[Callable[[Any], None]] = [partial(timer.after, 0.0), partial(renewals.put, "it")]
    for begin in begins:
        came = threading.Event()
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            begin(int)
        begin(came.set)
        assert came.wait(30)


def test_every_living_lease_is_found_while_another_thread_acquires(client: "redis.Redis") -> None:
    """SIGTERM shortens them all, and another thread must not keep it from that."""
    first = SmartLock(client, "it").acquire()
    assert first is not None
    others: list[Any] = []

    class Interrupted(KeyedRef[int, Any]):
        def __call__(self) -> Any:  # in the middle of it, where threads can switch
            others.append(SmartLock(client, f"it{len(others)}").acquire())
            return super().__call__()

    leases: Any = process.leases
    leases.data[id(first)] = Interrupted(first, lambda _: None, id(first))
    try:
        assert first in process.list_leases()
    finally:
        del leases.data[id(first)]
    assert others
    for lease in (first, *others):
        lease.release()
