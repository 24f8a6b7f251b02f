"""What every lock does, sync and async, on every store: one suite for all of them."""

import asyncio
import contextlib
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from inturn.locks import (
    AsyncBasicLock,
    AsyncKernelFileLock,
    AsyncPgLock,
    AsyncSemaphore,
    AsyncSmartLock,
    BasicLock,
    KernelFileLock,
    LockError,
    LockLost,
    LockNotHeld,
    LockTimeout,
    PgLock,
    Semaphore,
    SmartLock,
)
from inturn.locks.core.lease import AsyncLease, Lease
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from tests.locks.conftest import at_any_pace, in_threads

Make = Callable[..., Lock]
KINDS = ["smart", "smart portable", "basic", "semaphore", "kernel", "pg session", "pg table"]
OWNING = [kind for kind in KINDS if kind != "basic"]
LEASES = ["smart", "smart portable", "semaphore", "pg table"]


@pytest.fixture
def places(
    request: pytest.FixtureRequest, tmp_path: Path
) -> "Callable[[str, Any], dict[str, Callable[..., Any]]]":
    """Return functions that make a lock of each kind, sync or async."""

    def of(kind: str, client: Any, asynchronous: bool = False) -> Callable[..., Any]:
        smart = AsyncSmartLock if asynchronous else SmartLock
        if kind.startswith("smart"):
            return lambda **o: smart(client, "it", portable=kind.endswith("portable"), **o)
        if kind == "basic":
            return lambda **o: (AsyncBasicLock if asynchronous else BasicLock)(client, "it", **o)
        if kind == "semaphore":
            return lambda **o: (AsyncSemaphore if asynchronous else Semaphore)(client, "it", 1, **o)
        if kind == "kernel":
            return lambda **o: (AsyncKernelFileLock if asynchronous else KernelFileLock)(
                tmp_path / "it.lock", **o
            )
        dsn = request.getfixturevalue("pg")
        mode: Any = kind.removeprefix("pg ")
        return lambda **o: (AsyncPgLock if asynchronous else PgLock)(dsn, "it", mode=mode, **o)

    return of  # type: ignore[return-value]


@pytest.fixture
def make(places: Any, kind: str, request: pytest.FixtureRequest) -> Iterator[Make]:
    if kind.startswith(("pg", "kernel")):
        yield places(kind, None)
        return
    decoding = kind == "smart"
    with redis.Redis(
        unix_socket_path=request.getfixturevalue("socket"), decode_responses=decoding
    ) as client:
        yield places(kind, client)


@pytest.fixture
def make_async(
    places: Any, kind: str, socket: str
) -> "Callable[[], contextlib.AbstractAsyncContextManager[Any]]":
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        async with redis.asyncio.Redis(unix_socket_path=socket) as client:
            yield places(kind, client, True)

    return opened


# ---------------------------------------------------------------- sync


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_held_by_one_and_then_by_the_next(make: Make) -> None:
    first, second = make(), make()
    lease = first.acquire()
    assert isinstance(lease, Lease)
    assert first.locked()
    assert second.locked()
    assert second.acquire(blocking=False) is None
    assert second.acquire(timeout=0.05) is None
    first.release()
    assert not second.locked()
    assert second.acquire(blocking=False) is not None
    second.release()


@pytest.mark.parametrize("kind", OWNING)
def test_only_its_owner_owns_and_releases_it(make: Make) -> None:
    first, second = make(), make()
    with first:
        assert first.owned()
        assert not second.owned()
        with pytest.raises(LockNotHeld):
            second.release()
        assert in_threads(first.owned) == [False]
        with pytest.raises(LockNotHeld):
            in_threads(first.release)
        assert first.owned()
    with pytest.raises(LockNotHeld):
        first.release()


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_that_lives_long_does_not_remember_the_leases_that_were_released(make: Make) -> None:
    lock = make()
    lease = lock.acquire()
    assert lease is not None
    gone = [weakref.ref(lease)]
    lease.release()
    with lock as lease:
        assert lease is not None
        gone.append(weakref.ref(lease))
    del lease
    assert [lease() for lease in gone] == [None, None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_never_runs_unlocked(make: Make) -> None:
    ran = False
    with make(), pytest.raises(LockTimeout, match="it"), make(timeout=0.05):
        ran = True
    assert not ran


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_unlocked_only_on_request_and_then_releases_nothing(make: Make) -> None:
    with make() as lease:
        with make(timeout=0, on_timeout="proceed") as none:
            assert none is None
        assert make().locked()
        assert lease is not None
        lease.ensure()


@pytest.mark.parametrize("kind", KINDS)
def test_a_waiter_gets_it_when_it_is_released(make: Make) -> None:
    def time_one() -> float:
        lock = make()
        lease = lock.acquire()
        waiting = threading.Event()

        def wait() -> float:
            waiting.set()
            with make(timeout=20):
                return time.monotonic()

        def release() -> float:
            waiting.wait()
            time.sleep(0.1)  # not for synchronisation, but so that the other one really waits
            assert lease is not None
            lease.release()
            return time.monotonic()

        got, freed = in_threads(wait, release)
        return float(got - freed)

    assert any(time_one() < 1.0 for _ in range(3))  # the machine may stall


@pytest.mark.parametrize("kind", OWNING)
def test_a_lease_knows_itself(make: Make) -> None:
    lock = make()
    with lock as lease:
        assert lease is not None
        assert (lease.valid, bool(lease.lost)) == (True, False)
        assert lease.name == lock.name
        assert len(lease.lock_id) == 32
        assert lease.fence is None or lease.fence > 0
        lease.ensure()
    assert not lease.valid
    with pytest.raises(LockNotHeld):
        lease.ensure()
    lease.release()  # a second time does nothing


@pytest.mark.parametrize("kind", OWNING)
def test_fences_grow(make: Make) -> None:
    fences = []
    for _ in range(3):
        with make() as lease:
            assert lease is not None
            fences.append(lease.fence or 0)
    assert fences == sorted(set(fences))


@pytest.mark.parametrize("kind", LEASES)
def test_a_lease_is_renewed_beyond_its_ttl(make: Make) -> None:
    def hold(scale: float) -> None:
        with make(ttl=1.0 * scale) as lease:
            time.sleep(2.2 * scale)  # more than two times to live
            assert lease is not None
            lease.ensure()
            assert not make().acquire(blocking=False)

    at_any_pace(hold)


@pytest.mark.parametrize("kind", LEASES)
def test_a_lease_that_is_not_renewed_ends_and_says_so(make: Make) -> None:
    lock = make(ttl=0.2, renew=False)
    lease = lock.acquire()
    assert lease is not None
    notified = threading.Event()
    lease.on_lost(notified.set)
    assert notified.wait(10)
    assert lease.lost
    assert not lease.valid
    assert lease.remaining() == 0
    with pytest.raises(LockError, match="time to live ended"):
        lease.ensure()
    with make(timeout=10):
        pass
    with pytest.raises(LockError):
        lock.release()


@pytest.mark.parametrize("kind", LEASES)
def test_max_hold_ends_the_renewals(make: Make) -> None:
    def hold(scale: float) -> None:
        lease = make(ttl=0.3 * scale, max_hold=0.5 * scale).acquire()
        assert lease is not None
        assert lease.lost.wait(10 * scale)
        assert 0.5 * scale <= lease.age < 5 * scale
        with pytest.raises(LockLost):
            lease.release()
        with make(timeout=10):
            pass

    at_any_pace(hold)


@pytest.mark.parametrize("kind", LEASES)
def test_extending_sets_a_new_life(make: Make) -> None:
    lock = make(ttl=20)
    with lock as lease:
        lock.extend(60)
        assert lease is not None
        assert 50 < lease.remaining() <= 60
        holder = make().holder()
        assert holder is not None
        assert holder.ttl is None or holder.ttl > 50
        for nonsense in (0, -60):
            with pytest.raises(ValueError, match="more than 0"):
                lock.extend(nonsense)
    for nonsense in (0, -1):
        with pytest.raises(ValueError, match="more than 0"):
            make(ttl=nonsense)


@pytest.mark.parametrize("kind", LEASES)
@pytest.mark.parametrize("looked_at", [False, True])
def test_a_lease_that_was_extended_to_end_sooner_is_renewed_sooner(
    make: Make, looked_at: bool
) -> None:
    def hold(scale: float) -> None:
        with make(ttl=2.0 * scale if looked_at else 30.0) as lease:
            assert lease is not None
            if looked_at:
                time.sleep(0.8 * scale)  # renewed once, and due again after its new end
            lease.extend(1.5 * scale)
            time.sleep(2.5 * scale)
            lease.ensure()

    at_any_pace(hold)


@pytest.mark.parametrize("kind", LEASES)
def test_a_handle_releases_elsewhere(make: Make) -> None:
    lease = make().acquire()
    assert lease is not None
    handle = lease.handle()
    assert make().from_handle(handle) is lease  # within a process it is the same object
    del lease
    make().from_handle(handle).release()
    assert not make().locked()
    with pytest.raises(LockNotHeld):
        make().from_handle(handle)


@pytest.mark.usefixtures("renewed_soon")
@pytest.mark.parametrize("kind", ["smart", "smart portable", "pg table"])
def test_breaking_it_takes_it_from_its_holder(make: Make) -> None:
    lease = make(ttl=30).acquire()
    assert lease is not None
    assert make().break_()
    assert not make().break_()
    with make() as successor:
        assert successor is not None
        assert (successor.fence or 0) > (lease.fence or 0) + 1
        assert lease.lost.wait(10)
        with pytest.raises(LockLost):
            lease.release()
        assert make().locked()


# ---------------------------------------------------------------- async


def asynchronously(opened: Any, body: Callable[[Any], Any]) -> None:
    async def main() -> None:
        async with opened() as make:
            await asyncio.wait_for(body(make), 120)  # a failing test shall not hang

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_async_it_is_held_by_one_and_then_by_the_next(make_async: Any) -> None:
    async def body(make: Callable[..., AsyncLock]) -> None:
        first, second = make(), make()
        assert isinstance(await first.acquire(), AsyncLease)
        assert await second.locked()
        assert await second.acquire(blocking=False) is None
        assert await second.acquire(timeout=0.05) is None
        await first.release()
        assert not await second.locked()
        assert await second.acquire(blocking=False)
        await second.release()

    asynchronously(make_async, body)


@pytest.mark.parametrize("kind", KINDS)
def test_async_a_lock_that_lives_long_does_not_remember_the_leases_that_were_released(
    make_async: Any,
) -> None:
    async def body(make: Callable[..., AsyncLock]) -> None:
        lock = make()
        lease = await lock.acquire()
        assert lease is not None
        gone = weakref.ref(lease)
        await lease.release()
        del lease
        assert gone() is None

    asynchronously(make_async, body)


@pytest.mark.landing
@pytest.mark.parametrize("kind", LEASES)
def test_async_a_loop_does_not_remember_the_leases_that_were_released(make_async: Any) -> None:
    async def body(make: Callable[..., AsyncLock]) -> None:
        lock = make()
        for _ in range(300):
            async with lock:
                pass
        assert sum(type(item) is asyncio.TimerHandle for item in gc.get_objects()) < 200

    asynchronously(make_async, body)


@pytest.mark.parametrize("kind", OWNING)
def test_async_two_tasks_that_share_a_lock_do_not_release_each_others(make_async: Any) -> None:
    async def body(make: Callable[..., AsyncLock]) -> None:
        lock = make()

        async def intrude() -> None:
            assert not await lock.owned()
            with pytest.raises(LockNotHeld):
                await lock.release()

        async with lock:
            await asyncio.create_task(intrude())
            assert await lock.owned()

    asynchronously(make_async, body)


@pytest.mark.parametrize("kind", KINDS)
def test_async_a_body_never_runs_unlocked(make_async: Any) -> None:
    async def body(make: Callable[..., AsyncLock]) -> None:
        async with make():
            with pytest.raises(LockTimeout):
                async with make(timeout=0.05):
                    pytest.fail("it ran")
            async with make(timeout=0, on_timeout="proceed") as none:
                assert none is None
            assert await make().locked()

    asynchronously(make_async, body)


@pytest.mark.parametrize("kind", KINDS)
def test_async_a_waiter_gets_it_when_it_is_released(make_async: Any) -> None:
    async def time_one(make: Callable[..., AsyncLock]) -> float:
        lease = await make().acquire()

        async def wait() -> None:
            async with make(timeout=20):
                pass

        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0.1)
        assert not waiter.done()
        assert lease is not None
        await lease.release()
        began = time.monotonic()
        await waiter
        return time.monotonic() - began

    async def body(make: Callable[..., AsyncLock]) -> None:
        times = [await time_one(make)]
        while times[-1] >= 1.0 and len(times) < 3:  # the machine may stall
            times.append(await time_one(make))
        assert times[-1] < 1.0

    asynchronously(make_async, body)


@pytest.mark.parametrize("kind", KINDS)
def test_async_a_cancelled_waiter_leaves_nothing_behind(make_async: Any) -> None:
    async def body(make: Callable[..., AsyncLock]) -> None:
        for moment in (0, 0.001, 0.1):  # while it connects, asks, waits
            lease = await make().acquire()
            waiter = asyncio.create_task(make().acquire())
            await asyncio.sleep(moment)
            waiter.cancel()
            await asyncio.wait([waiter], timeout=10)
            assert waiter.cancelled()
            assert lease is not None
            await lease.release()
            async with make(timeout=10):
                pass

    asynchronously(make_async, body)


@pytest.mark.parametrize("kind", LEASES)
def test_async_a_lease_is_renewed_and_one_that_is_not_ends(make_async: Any) -> None:
    async def hold(make: Callable[..., AsyncLock], scale: float) -> None:
        async with make(ttl=1.0 * scale) as lease:
            await asyncio.sleep(2.2 * scale)
            assert lease is not None
            lease.ensure()

    async def body(make: Callable[..., AsyncLock]) -> None:
        lease = await make(ttl=0.2, renew=False).acquire()
        assert lease is not None
        notified = asyncio.Event()
        lease.on_lost(notified.set)
        await notified.wait()
        assert lease.lost
        with pytest.raises(LockLost):
            await lease.release()
        async with make(timeout=10):
            pass

    at_any_pace(lambda scale: asynchronously(make_async, partial(hold, scale=scale)))
    asynchronously(make_async, body)


@pytest.mark.parametrize("kind", LEASES)
@pytest.mark.parametrize("looked_at", [False, True])
def test_async_a_lease_that_was_extended_to_end_sooner_is_renewed_sooner(
    make_async: Any, looked_at: bool
) -> None:
    async def hold(make: Callable[..., AsyncLock], scale: float) -> None:
        async with make(ttl=2.0 * scale if looked_at else 30.0) as lease:
            assert lease is not None
            if looked_at:
                await asyncio.sleep(0.8 * scale)
            await lease.extend(0.4 * scale)
            await asyncio.sleep(1.0 * scale)
            lease.ensure()

    at_any_pace(lambda scale: asynchronously(make_async, partial(hold, scale=scale)))


@pytest.mark.parametrize("kind", LEASES)
def test_async_extending_and_handles(make_async: Any) -> None:
    async def body(make: Callable[..., AsyncLock]) -> None:
        lock = make(ttl=20)
        lease = await lock.acquire()
        await lock.extend(60)
        assert lease is not None
        assert 50 < lease.remaining() <= 60
        assert await make().from_handle(lease.handle()) is lease
        await lease.release()
        with pytest.raises(LockNotHeld):
            await make().from_handle(lease.handle())

    asynchronously(make_async, body)


# ---------------------------------------------------------------- every server


def test_it_works_on_every_version_of_redis(sockets: dict[str, str]) -> None:
    assert sockets
    for path in sockets.values():
        with redis.Redis(unix_socket_path=path) as client:
            client.flushall()
            for lock in (SmartLock(client, "v"), BasicLock(client, "b"), Semaphore(client, "s", 1)):
                with lock:
                    assert lock.acquire(blocking=False) is None
                assert not lock.locked()
