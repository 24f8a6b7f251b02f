"""TokenLock beside redis-py's lock, which it replaces (statements R and RD)."""

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import redis
import redis.asyncio
import redis.asyncio.lock
import redis.lock
from redis.exceptions import LockError, LockNotOwnedError

import inturn.locks.compat.token_lock
import inturn.locks.compat.token_lock_async
from inturn.locks import AsyncTokenLock, SmartLock, TokenLock, locked
from tests.locks.conftest import Async, Spawn, in_threads, until
from tests.locks.lossy import Lossy
from tests.locks.odd import make_of_type

HOLD = """
import sys, redis
from inturn.locks import TokenLock
lock = TokenLock(redis.Redis(unix_socket_path=sys.argv[1]), "it", timeout=float(sys.argv[2]))
print(lock.acquire(), flush=True)
sys.stdin.readline()
"""
BOTH = pytest.mark.parametrize("kind", [redis.lock.Lock, TokenLock], ids=["redis-py", "ours"])
BOTH_ASYNC = pytest.mark.parametrize(
    "kind", [redis.asyncio.lock.Lock, AsyncTokenLock], ids=["redis-py", "ours"]
)


@pytest.fixture(autouse=True)
def fresh_scripts() -> Iterator[None]:
    """redis-py keeps its scripts on the class."""
    yield
    for kind in (TokenLock, AsyncTokenLock, redis.lock.Lock, redis.asyncio.lock.Lock):
        for name in vars(kind).copy():
            if name.startswith("lua_"):
                setattr(kind, name, None)


# ---------------------------------------------------------------- the same as redis-py


@pytest.mark.landing
@pytest.mark.statement("R1")
def test_threads_processes_and_machines_exclude_each_other(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    assert spawn(HOLD, socket, 60).line() == "True"
    assert in_threads(*[lambda: TokenLock(conn, "it").acquire(blocking=False)] * 3) == [False] * 3


@BOTH
@pytest.mark.statement("R2")
def test_one_holder(client: "redis.Redis", kind: Any) -> None:
    taken = in_threads(*[lambda: kind(client, "it").acquire(blocking=False)] * 10)
    assert taken.count(True) == 1


@pytest.mark.landing
@pytest.mark.statement("R3")
def test_obtainable_at_last_even_when_the_holder_crashed(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(HOLD, socket, 0.5)
    holder.line()
    holder.kill()
    assert TokenLock(conn, "it", blocking_timeout=20).acquire()


@BOTH
@pytest.mark.statement("R4")
def test_time_to_live_waiting_limit_and_extension(client: "redis.Redis", kind: Any) -> None:
    lock = kind(client, "it", timeout=100)
    assert lock.acquire()
    assert 90_000 < client.pttl("it") <= 100_000
    assert lock.extend(100) is True
    assert 180_000 < client.pttl("it") <= 200_000
    assert lock.extend(50, replace_ttl=True) is True
    assert 40_000 < client.pttl("it") <= 50_000
    assert lock.reacquire() is True
    assert 90_000 < client.pttl("it") <= 100_000
    assert kind(client, "it", sleep=0.01, blocking_timeout=0.05).acquire() is False


@BOTH
@pytest.mark.statement("R5")
def test_acquire_with_a_waiting_limit_work_release(client: "redis.Redis", kind: Any) -> None:
    with kind(client, "it", blocking_timeout=1) as lock:
        assert lock.owned()
        assert lock.locked()
    assert not lock.locked()


@BOTH
@pytest.mark.statement("R6")
def test_a_robbed_holders_release_raises_and_the_robber_keeps_it(
    client: "redis.Redis", kind: Any
) -> None:
    first, second = kind(client, "it", timeout=30), kind(client, "it", timeout=30)
    first.acquire()
    client.delete("it")  # it has expired
    assert second.acquire(blocking=False)
    with pytest.raises(LockNotOwnedError):
        first.release()
    assert second.owned()
    second.release()


@BOTH
@pytest.mark.statement("R7")
def test_a_static_token_releases_in_another_function(client: "redis.Redis", kind: Any) -> None:
    kind(client, "it").acquire(token="static")
    elsewhere = kind(client, "it")
    elsewhere.local.token = b"static"
    elsewhere.release()
    assert not elsewhere.locked()


@BOTH
@pytest.mark.statement("R7")
def test_a_shared_instance_releases_in_another_thread(client: "redis.Redis", kind: Any) -> None:
    lock = kind(client, "it", thread_local=False)
    lock.acquire()
    in_threads(lock.release)
    assert not lock.locked()


@pytest.mark.statement("R7")
def test_a_handle_releases_in_another_function(client: "redis.Redis") -> None:
    lease = SmartLock(client, "it").acquire()
    assert lease is not None
    SmartLock(client, "it").from_handle(lease.handle()).release()
    assert not SmartLock(client, "it").locked()


@pytest.mark.statement("R8")
def test_static_tokens_are_confused_and_handles_are_not(client: "redis.Redis") -> None:
    first, second = TokenLock(client, "it"), TokenLock(client, "it")
    assert first.acquire(token="static")
    assert not second.acquire(blocking=False, token="static")  # held, with the same token
    second.local.token = b"static"
    assert second.owned()  # and yet it seems to be the second one's
    a, b = SmartLock(client, "that").acquire(), SmartLock(client, "other").acquire()
    assert a is not None
    assert b is not None
    assert a.handle() != b.handle()
    with pytest.raises(ValueError, match="belongs to the lock 'other'"):
        SmartLock(client, "that").from_handle(b.handle())


@BOTH
@pytest.mark.statement("R9")
def test_errors_name_the_lock(client: "redis.Redis", kind: Any) -> None:
    with pytest.raises(LockError) as caught:
        kind(client, "it").release()
    assert caught.value.lock_name == "it"


@pytest.mark.statement("R9")
def test_errors_name_owner_age_and_ttl(client: "redis.Redis") -> None:
    with (
        SmartLock(client, "it", host="web-1"),
        pytest.raises(TimeoutError, match=r"'it'.*owner web-1, age .* ttl"),
    ):
        with SmartLock(client, "it", host="web-2", timeout=0):
            pass


@pytest.mark.statement("R10")
def test_if_unable_stop_in_one_call(client: "redis.Redis") -> None:
    ran = []
    job = locked("it", using=lambda name: SmartLock(client, name), on_busy="skip")(
        lambda: ran.append(1)
    )
    with SmartLock(client, "it"):
        job()
    assert ran == []
    job()
    assert ran == [1]
    assert not SmartLock(client, "it").locked()


@pytest.mark.statement("R11")
def test_the_same_helper_serves_recurring_and_ad_hoc_callers(client: "redis.Redis") -> None:
    entered, leave, ran = threading.Event(), threading.Event(), []

    @locked("refresh:{filter_id}", using=lambda name: SmartLock(client, name), on_busy="skip")
    def refresh(filter_id: int, why: str = "ad hoc") -> None:
        ran.append(why)
        entered.set()
        assert leave.wait(20)

    def ad_hoc() -> None:
        entered.wait()
        refresh(3)
        leave.set()

    in_threads(lambda: refresh(3, "recurring"), ad_hoc)
    assert ran == ["recurring"]


@pytest.mark.statement("R12")
def test_keys_are_made_from_arguments(conn: "redis.Redis") -> None:
    seen: list[Any] = []

    @locked("filter:{filter_id}:{kind}", using=lambda name: SmartLock(conn, name))
    def run(filter_id: int, kind: str = "daily") -> None:
        seen.extend(key for key in conn.keys("*") if ":fence" not in key)

    run(7)
    assert seen == ["inturn:{filter:7:daily}"]


@BOTH
@pytest.mark.statement("R13")
def test_short_ttls(client: "redis.Redis", kind: Any) -> None:
    lock = kind(client, "it", timeout=0.05)
    lock.acquire()
    until(lambda: not lock.locked())
    with pytest.raises(LockNotOwnedError):
        lock.release()


# ---------------------------------------------------------------- the details of a drop-in


@pytest.mark.parametrize(
    "method", ["__init__", "acquire", "release", "extend", "reacquire", "do_acquire", "do_extend"]
)
def test_signatures_are_those_of_redis_py(method: str) -> None:
    pairs = [(redis.lock.Lock, TokenLock), (redis.asyncio.lock.Lock, AsyncTokenLock)]
    for theirs, ours in pairs:
        expected, got = (
            [
                (p.name, p.default)
                for p in inspect.signature(getattr(kind, method)).parameters.values()
            ]
            for kind in (theirs, ours)
        )
        assert got == expected


def test_the_surface_is_that_of_redis_py(conn: "redis.Redis", with_async: Async) -> None:
    def public(lock: Any) -> set[str]:
        return {name for name in dir(lock) if not name.startswith("_")}

    assert public(redis.lock.Lock(conn, "it")) <= public(TokenLock(conn, "it"))

    async def body(client: Any) -> None:
        assert public(redis.asyncio.lock.Lock(client, "it")) <= public(AsyncTokenLock(client, "it"))

    with_async(body)


def test_the_stored_value_is_exactly_the_token(client: "redis.Redis") -> None:
    lock = TokenLock(client, "it")
    lock.acquire(token="mine")
    assert client.get("it") in ("mine", b"mine")
    assert lock.local.token == b"mine"


@pytest.mark.parametrize(
    ("kind", "module"),
    [(redis.lock.Lock, redis.lock), (TokenLock, inturn.locks.compat.token_lock)],
    ids=["redis-py", "ours"],
)
def test_it_sleeps_exactly_and_never_a_clipped_rest(
    conn: "redis.Redis", kind: Any, module: Any
) -> None:
    kind(conn, "it").acquire()
    now, slept = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        slept.append(seconds)

    with mock.patch.object(module, "mod_time") as clock:  # an injected clock on a real Redis
        clock.monotonic.side_effect = lambda: now
        clock.sleep.side_effect = sleep
        assert kind(conn, "it", sleep=0.25, blocking_timeout=1.1).acquire() is False
    assert slept == [0.25] * 4


@BOTH
def test_a_sync_release_forgets_the_token_first(client: "redis.Redis", kind: Any) -> None:
    lock = kind(client, "it")
    lock.acquire()
    client.delete("it")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    assert lock.local.token is None


@BOTH
def test_a_release_error_in_a_with_can_be_a_warning(
    client: "redis.Redis", kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with kind(client, "it", raise_on_release_error=False):
        client.delete("it")
    assert "no longer owned" in caplog.text
    with pytest.raises(LockError), kind(client, "it"):
        client.delete("it")


@BOTH
def test_a_with_that_cannot_acquire_raises(client: "redis.Redis", kind: Any) -> None:
    with kind(client, "it"), pytest.raises(LockError, match="within the time"):
        with kind(client, "it", blocking_timeout=0.01, sleep=0.01):
            pytest.fail("it ran")


@BOTH
def test_only_with_a_timeout_can_it_be_extended(client: "redis.Redis", kind: Any) -> None:
    lock = kind(client, "it")
    with pytest.raises(LockError, match="unlocked"):
        lock.extend(1)
    lock.acquire()
    for call in (lambda: lock.extend(1), lock.reacquire):
        with pytest.raises(LockError, match="no timeout"):
            call()


@BOTH_ASYNC
def test_async_it_does_what_redis_pys_does(with_async: Async, kind: Any) -> None:
    async def body(client: Any) -> None:
        async with kind(client, "it", timeout=10) as lock:
            assert await lock.owned()
            assert await lock.locked()
            assert await lock.extend(10) is True
            assert await lock.reacquire() is True
            assert await kind(client, "it").acquire(blocking=False) is False
            assert await kind(client, "it", sleep=0.01).acquire(blocking_timeout=0.03) is False
        assert not await lock.locked()
        with pytest.raises(LockError):
            await lock.release()

    with_async(body)


@BOTH_ASYNC
def test_async_a_cancelled_release_keeps_the_token(with_async: Async, kind: Any) -> None:
    async def body(client: Any) -> None:
        lock = kind(client, "it")
        acquired = asyncio.Event()

        async def hold() -> None:
            await lock.acquire()
            await client.client_pause(60_000, all=False)  # the server answers no writes
            acquired.set()
            await lock.release()

        holder = asyncio.create_task(hold())
        await acquired.wait()
        await asyncio.sleep(0.05)  # until the request is on its way
        holder.cancel()
        try:
            with pytest.raises(asyncio.CancelledError):
                await holder
        finally:
            await client.client_unpause()
        assert lock.local.token is not None
        with contextlib.suppress(LockNotOwnedError):  # the server may have done it already
            await lock.release()
        assert not await lock.locked()

    with_async(body)


@BOTH_ASYNC
def test_async_acquiring_in_wait_for_and_releasing_outside(with_async: Async, kind: Any) -> None:
    async def body(client: Any) -> None:
        lock = kind(client, "it")
        own_task = asyncio.ensure_future(lock.acquire())
        assert await asyncio.wait_for(own_task, 20)
        await lock.release()

    with_async(body)


# ---------------------------------------------------------------- the defects of redis-py


def retrying(lossy: Lossy) -> "redis.Redis":
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis(unix_socket_path=lossy.path, retry=Retry(NoBackoff(), 3))


@pytest.mark.statement("RD1")
def test_a_lost_reply_on_acquire_changes_nothing(lossy: Lossy) -> None:
    with retrying(lossy) as client:
        theirs, ours = redis.lock.Lock(client, "theirs"), TokenLock(client, "ours")
        for lock in (theirs, ours):
            lock.acquire()
            lock.release()  # now everything is loaded and connected
        lossy.lose_next_reply()
        assert theirs.acquire(blocking=False) is False  # the defect: the key holds its token
        assert theirs.locked()
        lossy.lose_next_reply()
        assert ours.acquire(blocking=False) is True
        assert lossy.lost.is_set()
        assert ours.owned()
        ours.release()


@pytest.mark.statement("RD2")
def test_a_lost_reply_on_release_changes_nothing(lossy: Lossy) -> None:
    with retrying(lossy) as client:
        theirs, ours = redis.lock.Lock(client, "theirs"), TokenLock(client, "ours")
        for lock in (theirs, ours):
            lock.acquire()
            lock.release()
            lock.acquire()
        lossy.lose_next_reply()
        with pytest.raises(LockNotOwnedError):  # the defect
            theirs.release()
        lossy.lose_next_reply()
        ours.release()
        assert lossy.lost.is_set()
        assert not ours.locked()


@pytest.mark.statement("RD3")
def test_another_threads_release_is_a_lock_error(client: "redis.Redis") -> None:
    for lock, error in (
        (redis.lock.Lock(client, "theirs"), AttributeError),
        (TokenLock(client, "ours"), LockError),
    ):
        lock.acquire()
        with pytest.raises(error):
            in_threads(lock.release)
        assert lock.owned()
    with pytest.raises(LockError):
        in_threads(lambda: ours_in_another_thread(client))


def ours_in_another_thread(client: "redis.Redis") -> None:
    lock = TokenLock(client, "made here", timeout=1)
    for call in (lock.extend, lambda _: lock.reacquire()):
        with pytest.raises(LockError):
            call(1)
    lock.release()


@pytest.mark.statement("RD4")
def test_times_that_mean_nothing_are_refused_and_short_ones_are_short(
    client: "redis.Redis",
) -> None:
    assert redis.lock.Lock(client, "theirs", timeout=0).acquire()
    assert client.pttl("theirs") == -1  # the defect: for ever
    for nonsense in (0, -1):
        with pytest.raises(ValueError, match="more than 0"):
            TokenLock(client, "ours", timeout=nonsense)
    with pytest.raises(redis.ResponseError):  # the defect
        redis.lock.Lock(client, "short", timeout=0.0004).acquire()
    assert TokenLock(client, "short", timeout=0.0004).acquire()
    until(lambda: not client.exists("short"))


@pytest.mark.statement("RD5")
def test_extending_by_less_than_nothing_is_refused(client: "redis.Redis") -> None:
    theirs = redis.lock.Lock(client, "theirs", timeout=30)
    theirs.acquire()
    assert theirs.extend(-60) is True  # the defect
    assert not theirs.locked()
    ours = TokenLock(client, "ours", timeout=30)
    ours.acquire()
    for nonsense in (-60, 0):
        with pytest.raises(ValueError, match="more than 0"):
            ours.extend(nonsense)
    assert ours.owned()


@pytest.mark.parametrize(
    ("kind", "robbed"),
    [(redis.asyncio.lock.Lock, True), (AsyncTokenLock, False)],
    ids=["redis-py", "ours"],
)
@pytest.mark.statement("RD6")
def test_two_tasks_that_share_a_lock_do_not_release_each_others(
    with_async: Async, kind: Any, robbed: bool
) -> None:
    async def body(client: Any) -> None:
        lock = kind(client, "it", timeout=30)
        await lock.acquire()

        async def intrude() -> None:
            await lock.release()

        result = (await asyncio.gather(intrude(), return_exceptions=True))[0]
        assert isinstance(result, LockError) is not robbed
        assert await lock.locked() is not robbed

    with_async(body)


@pytest.mark.parametrize("kind", ["list", "hash"])
@pytest.mark.statement("RD7")
def test_a_key_of_another_type_is_reported_and_kept(client: "redis.Redis", kind: str) -> None:
    make_of_type(client, kind, "it")
    theirs, ours = redis.lock.Lock(client, "it"), TokenLock(client, "it", timeout=1)
    with pytest.raises(redis.ResponseError):  # the defect: it cannot even be asked
        theirs.locked()
    assert ours.locked()
    assert not ours.owned()
    with pytest.raises(LockError, match="Something other"):
        ours.acquire()
    ours.local.token = b"x"
    for call in (lambda: ours.extend(1), ours.reacquire, ours.release):
        with pytest.raises(LockNotOwnedError):
            call()
    assert client.type("it") in (kind, kind.encode())
