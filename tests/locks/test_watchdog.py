"""The threads and dates behind the leases. That they are renewed, and when they are lost, stands in test_contract.py."""

import heapq
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from weakref import KeyedRef

import redis

from inturn.locks import SmartLock, baselease, watchdog
from inturn.locks.timing import Clock


def test_one_watchdog_serves_many_leases(client: "redis.Redis") -> None:
    def ours() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name.startswith("inturn-locks")}

    leases = [SmartLock(client, f"it{n}", ttl=0.4).acquire() for n in range(30)]
    time.sleep(0.9)  # two lives
    for lease in leases:
        assert lease is not None
        lease.ensure()
    assert ours() == {"inturn-locks-clock", "inturn-locks-renewal"}
    for lease in leases:
        assert lease is not None
        lease.release()


def test_a_signals_handler_may_take_a_lock_while_the_watchdog_is_told_of_another(monkeypatch: Any) -> None:
    clock, told, heappush = Clock(), threading.Event(), heapq.heappush

    def interrupted(*arguments: Any) -> None:  # in the middle of it, where a handler might run
        monkeypatch.setattr(heapq, "heappush", heappush)
        clock.after(0.0, told.set)
        heappush(*arguments)

    monkeypatch.setattr(heapq, "heappush", interrupted)
    thread = threading.Thread(target=clock.after, args=(60.0, print), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert told.wait(30)


def test_locks_that_are_held_for_a_moment_leave_the_watchdog_asleep(client: "redis.Redis", monkeypatch: Any) -> None:
    """One date for all of them, and nothing that piles up."""
    dates: list[float] = []
    monkeypatch.setattr(watchdog, "_clock", SimpleNamespace(after=lambda seconds, _: dates.append(seconds)))
    monkeypatch.setattr(watchdog, "_of_threads", watchdog.FirstLooks(watchdog.in_thread, watchdog.ThreadWatch))
    for n in range(50):
        with SmartLock(client, f"it{n}", ttl=30.0):
            pass
    assert dates == [10.0]
    with SmartLock(client, "short", ttl=3.0):
        pass
    assert dates == [10.0, 1.0]


def test_a_lock_that_comes_during_the_first_look_at_others_is_not_overlooked(
    client: "redis.Redis", monkeypatch: Any
) -> None:
    planned: list[Callable[[], None]] = []
    looks = watchdog.FirstLooks(lambda _, action: planned.append(action), watchdog.ThreadWatch)
    monkeypatch.setattr(watchdog, "_of_threads", looks)
    all_living = baselease.all_living

    def before_the_last_comes() -> Any:
        seen = all_living()
        leases.append(SmartLock(client, "last").acquire())
        return seen

    leases = [SmartLock(client, "first").acquire()]
    monkeypatch.setattr(watchdog, "all_living", before_the_last_comes)
    planned.pop()()
    monkeypatch.setattr(watchdog, "all_living", all_living)
    planned.pop()()
    for lease in leases:
        assert lease is not None
        assert isinstance(lease.watched_by, watchdog.ThreadWatch)
        lease.release()


def test_all_that_live_are_found_while_another_thread_acquires(client: "redis.Redis") -> None:
    """SIGTERM shortens them all, and must not be stopped by that."""
    first = SmartLock(client, "it").acquire()
    assert first is not None
    others: list[Any] = []

    class Interrupted(KeyedRef[str, Any]):
        def __call__(self) -> Any:  # in the middle of it, where threads may switch
            others.append(SmartLock(client, f"it{len(others)}").acquire())
            return super().__call__()

    known: Any = baselease.living
    known.data[first.lock_id] = Interrupted(first, lambda _: None, first.lock_id)
    assert first in baselease.all_living()
    assert others
    for lease in (first, *others):
        lease.release()
