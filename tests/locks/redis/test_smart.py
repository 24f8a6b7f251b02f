"""The smart lock: its value, its rules for taking over, and its protocol."""

import json
import multiprocessing
import os
import random
import signal
import socket as sockets_module
import threading
import time
from base64 import urlsafe_b64encode
from typing import Any

import pytest
import redis

from inturn.locks import (
    JOB,
    AsyncSmartLock,
    BasicLock,
    LockLost,
    LockMalformed,
    LockTimeout,
    Policy,
    Semaphore,
    SmartLock,
    host_name,
)
from inturn.locks.core.protocol import run
from tests.locks.conftest import Async, Spawn, in_threads, until
from tests.locks.odd import make_of_type

KEY = "inturn:{it}"
HOLD = """
import sys, redis
from inturn.locks import *
client = redis.Redis(unix_socket_path=sys.argv[1])
lock = SmartLock(client, "it", host=sys.argv[2], ttl=float(sys.argv[3]))
print(lock.acquire(timeout=0).fence, flush=True)
sys.stdin.readline()
"""


def foreign(hostname: str, age: float = 0, **more: Any) -> str:
    """Return a value as another program writes it, with only the required members."""
    return json.dumps(
        {"hostname": hostname, "acquired_at": int(time.time() - age), "lock_id": "theirs", **more}
    )


@pytest.mark.statement("S1")
def test_value_is_json_with_the_required_members(conn: "redis.Redis") -> None:
    with SmartLock(conn, "it", host="web-1"):
        value = json.loads(str(conn.get(KEY)))
    assert value["hostname"] == "web-1"
    assert type(value["acquired_at"]) is int
    assert isinstance(value["lock_id"], str)


@pytest.mark.statement("S1")
def test_more_members_are_allowed_and_missing_ones_are_not(conn: "redis.Redis") -> None:
    conn.set(KEY, foreign("db-7", colour="green"))
    holder = SmartLock(conn, "it").holder()
    assert holder is not None
    assert holder.owner == "db-7"
    conn.set(KEY, json.dumps({"hostname": "db-7", "lock_id": "theirs"}))
    with pytest.raises(LockMalformed):
        SmartLock(conn, "it").holder()


@pytest.mark.statement("S2")
def test_lock_id_is_fresh_each_time(conn: "redis.Redis") -> None:
    seen = set()
    for _ in range(20):
        with SmartLock(conn, "it") as lease:
            assert lease is not None
            seen.add(json.loads(str(conn.get(KEY)))["lock_id"])
            assert lease.lock_id in seen
    assert len(seen) == 20


@pytest.mark.statement("S3")
def test_acquired_at_is_an_integer_of_the_servers_clock(conn: "redis.Redis") -> None:
    with SmartLock(conn, "it"):
        raw = str(conn.get(KEY))
    acquired_at = json.loads(raw)["acquired_at"]
    server: Any = conn.time()
    assert f'"acquired_at":{acquired_at}' in raw  # no exponent, no fraction
    assert 0 <= server[0] - acquired_at <= 60


@pytest.mark.statement("S4")
def test_release_compares_and_deletes_atomically(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    lock = SmartLock(client, "it")
    lock.acquire()
    other = foreign("db-7")
    conn.set(KEY, other)
    with pytest.raises(LockLost):
        lock.release()
    assert conn.get(KEY) == other


@pytest.mark.statement("S5")
def test_robbed_release(client: "redis.Redis") -> None:
    a = SmartLock(client, "it", host="a")
    b = SmartLock(client, "it", host="b", policy=Policy(stale_after=0))
    c = SmartLock(client, "it", host="c")
    a.acquire()
    assert b.acquire(timeout=0)
    with pytest.raises(LockLost, match=r"owner a, age .* ttl"):
        a.release()
    assert b.owned()
    assert c.acquire(timeout=0) is None
    b.release()
    assert not c.locked()


@pytest.mark.statement("S6")
def test_a_hosts_own_name_means_a_crash_so_stealing_is_safe(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    conn.set(KEY, foreign("web-1"))
    with SmartLock(client, "it", host="web-1", timeout=0) as lease:
        assert lease is not None
        assert lease.lock_id != "theirs"


@pytest.mark.landing
@pytest.mark.statement("S6")
def test_the_same_host_takes_over_at_once_after_a_kill(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(HOLD, socket, "web-1", 60)
    fence = int(holder.line())
    holder.kill()
    with SmartLock(conn, "it", host="web-1", timeout=0) as lease:
        assert lease is not None
        assert (lease.fence or 0) > fence


@pytest.mark.statement("S7")
def test_another_hosts_lock_is_not_stolen_by_default(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    conn.set(KEY, foreign("db-7", age=10**6))
    assert SmartLock(client, "it").acquire(timeout=0) is None


@pytest.mark.statement("S7")
def test_age_is_an_indicator_if_the_policy_says_so(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    patient = SmartLock(client, "it", policy=Policy(stale_after=3600))
    conn.set(KEY, foreign("db-7", age=3500))
    assert patient.acquire(timeout=0) is None
    conn.set(KEY, foreign("db-7", age=3700))
    with patient:
        pass


@pytest.mark.landing
@pytest.mark.statement("S7")
def test_another_host_gets_it_within_its_ttl_after_a_kill(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(HOLD, socket, "web-1", 1)
    holder.line()
    holder.kill()
    began = time.monotonic()
    with SmartLock(conn, "it", host="web-2", timeout=20):
        assert time.monotonic() - began < 15


@pytest.mark.statement("S8")
def test_no_stealing_from_another_thread_of_this_host(client: "redis.Redis") -> None:
    with SmartLock(client, "it"):
        assert in_threads(lambda: SmartLock(client, "it").acquire(timeout=0)) == [None]


@pytest.mark.statement("S8")
def test_no_stealing_from_another_task_of_this_host(with_async: Async) -> None:
    async def body(client: Any) -> None:
        async with AsyncSmartLock(client, "it"):
            assert await AsyncSmartLock(client, "it").acquire(timeout=0) is None

    with_async(body)


@pytest.mark.landing
@pytest.mark.statement("S8")
def test_no_stealing_from_another_process_of_this_host(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(HOLD, socket, "web-1", 60)
    holder.line()
    os.kill(holder.pid, signal.SIGSTOP)  # it is alive, though it does nothing
    assert SmartLock(conn, "it", host="web-1").acquire(timeout=0) is None


@pytest.mark.statement("S8")
def test_a_lock_from_before_the_boot_is_stolen(client: "redis.Redis", conn: "redis.Redis") -> None:
    conn.set(KEY, foreign("web-1", guard="elsewhere", boot="another boot"))
    with SmartLock(client, "it", host="web-1", timeout=0) as lease:
        holder = SmartLock(conn, "it").holder()
        assert lease is not None
        assert holder is not None
        assert holder.lock_id == lease.lock_id != "theirs"


@pytest.mark.statement("J5")
def test_a_newer_attempt_takes_over_from_an_older_one_at_once(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    lock = SmartLock(client, "it", host="web-1")
    old = lock.on_behalf_of("job 7", 1).acquire(timeout=0)
    assert old is not None
    for somebody_else in (lock, lock.on_behalf_of("job 8", 2), lock.on_behalf_of("job 7", 1)):
        assert somebody_else.acquire(timeout=0) is None
    new = SmartLock(conn, "it", host="web-2").on_behalf_of("job 7", 2).acquire(timeout=0)
    assert new is not None
    assert (old.fence, new.fence) == (1, 2)
    with pytest.raises(LockLost):
        old.release()
    assert new.owned()


@pytest.mark.statement("S9")
def test_host_name_is_the_callers_or_prefix_and_hostname(conn: "redis.Redis") -> None:
    with SmartLock(conn, "it", prefix="prod") as lease:
        assert lease is not None
        assert lease.owner == f"prod-{sockets_module.gethostname()}"
        assert json.loads(str(conn.get("prod:{it}")))["hostname"] == lease.owner
    with SmartLock(conn, "it", host="anything") as lease:
        assert lease is not None
        assert lease.owner == "anything"


@pytest.mark.statement("S10")
def test_workers_of_a_host_append_the_name_of_the_process(conn: "redis.Redis") -> None:
    assert host_name("prod", "Worker1") == f"prod-{sockets_module.gethostname()}-Worker1"
    conn.set(KEY, foreign(host_name(process="Worker1")))
    assert SmartLock(conn, "it", process="Worker2").acquire(timeout=0) is None  # of another worker
    with SmartLock(conn, "it", process="Worker1", timeout=0):  # of its own former self
        pass


MALFORMED = [
    "", "1", "null", "[]", "{}", "{", "\x00\xff", "[" * 5000, "x" * 100_000,
    '{"hostname":1,"acquired_at":1,"lock_id":"x"}',
    '{"hostname":"h","acquired_at":1.5,"lock_id":"x"}',
    '{"hostname":"h","acquired_at":"1","lock_id":"x"}',
    '{"hostname":"h","acquired_at":1,"lock_id":null}',
    '{"hostname":"h","acquired_at":1}',
]  # fmt: skip


@pytest.mark.parametrize("value", MALFORMED, ids=range(len(MALFORMED)))
@pytest.mark.statement("S11")
def test_malformed_values_are_reported_and_never_touched(client: "redis.Redis", value: str) -> None:
    raw = value.encode("latin-1")
    client.set(KEY, raw)
    lock = SmartLock(client, "it", host="h", policy=Policy(stale_after=0))
    for use in (lambda: lock.acquire(timeout=0), lock.holder, lock.break_):
        with pytest.raises(LockMalformed, match="not touched"):
            use()
    assert client.eval("return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0", 1, KEY, raw) == 1


@pytest.mark.statement("S11")
def test_random_values_never_pass_for_ours(conn: "redis.Redis") -> None:
    dice = random.Random(7)
    for _ in range(200):
        value = json.dumps(
            dice.choice([dice.random(), "a", None, [1], {"hostname": dice.random(), "lock_id": {}}])
        )
        conn.set(KEY, value)
        with pytest.raises(LockMalformed):
            SmartLock(conn, "it").acquire(timeout=0)
        assert conn.get(KEY) == value


@pytest.mark.statement("S12")
def test_a_job_gives_its_own_hosts_old_lock_300_seconds(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    conn.set(KEY, foreign("web-1"))
    assert SmartLock(client, "it", host="web-1", policy=JOB).acquire(timeout=0) is None
    left: Any = conn.pttl(KEY)
    assert 290_000 < left <= 300_000
    assert SmartLock(client, "it", host="web-1", policy=JOB).acquire(timeout=0) is None
    again: Any = conn.pttl(KEY)
    assert again <= left  # the grace goes on, and does not begin again


@pytest.mark.statement("S12")
def test_a_job_gives_another_hosts_lock_an_hour_after_six(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    job = SmartLock(client, "it", host="web-1", policy=JOB)
    conn.set(KEY, foreign("db-7", age=5 * 3600))
    assert job.acquire(timeout=0) is None
    assert conn.pttl(KEY) == -1
    conn.set(KEY, foreign("db-7", age=7 * 3600))
    assert job.acquire(timeout=0) is None
    left: Any = conn.pttl(KEY)
    assert 3_590_000 < left <= 3_600_000


@pytest.mark.statement("S12")
def test_a_request_has_a_strict_limit_goes_on_and_does_not_release(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    value = foreign("db-7")
    conn.set(KEY, value)
    began = time.monotonic()
    with SmartLock(client, "it", timeout=0.2, on_timeout="proceed") as lease:
        assert lease is None
        assert time.monotonic() - began < 20
    assert conn.get(KEY) == value


@pytest.mark.statement("S13")
def test_jobs_and_requests_share_one_format_on_one_key(client: "redis.Redis") -> None:
    job = SmartLock(client, "it", host="worker", policy=JOB)
    request = SmartLock(client, "it", host="web", timeout=0, on_timeout="proceed")
    with job, request as lease:
        assert lease is None
    with request as lease:
        assert lease is not None
        assert job.acquire(timeout=0) is None


@pytest.mark.landing
@pytest.mark.statement("S13")
def test_sigterm_while_holding_leaves_60_seconds(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    holder = spawn(HOLD, socket, "web-1", 3600)
    holder.line()
    before: Any = conn.pttl(KEY)
    assert before > 3_000_000
    holder.process.terminate()
    assert holder.process.wait(30) == -signal.SIGTERM
    after: Any = conn.pttl(KEY)
    assert 50_000 < after <= 60_000


def test_errors_name_lock_owner_age_and_ttl(client: "redis.Redis") -> None:
    with SmartLock(client, "it", host="web-1"), pytest.raises(LockTimeout) as caught:
        with SmartLock(client, "it", host="web-2", timeout=0):
            pass
    assert caught.value.name == "it"
    assert caught.value.owner == "web-1"
    assert caught.value.age is not None
    assert caught.value.ttl is not None
    assert "'it'" in str(caught.value)


def test_min_hold_keeps_it_taken_after_a_very_short_job(client: "redis.Redis") -> None:
    began = time.monotonic()
    with SmartLock(client, "it", min_hold=0.4):
        pass
    with SmartLock(client, "it", timeout=10):
        assert time.monotonic() - began >= 0.39


def test_min_hold_also_counts_after_a_release_by_a_handle(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    lease = SmartLock(conn, "it", portable=True, min_hold=60).acquire()
    assert lease is not None
    other = spawn(
        "import sys, redis; from inturn.locks import SmartLock\n"
        "client = redis.Redis(unix_socket_path=sys.argv[1])\n"
        "SmartLock(client, 'it', min_hold=60).from_handle(sys.argv[2]).release()",
        socket,
        lease.handle(),
    )
    assert other.process.wait(30) == 0
    assert 50_000 < conn.pttl(KEY) <= 61_000
    assert SmartLock(conn, "it", host="next").acquire(timeout=0) is None


def test_min_hold_is_not_cut_short_by_a_second_release(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    lock = SmartLock(client, "it", min_hold=60)
    lease = lock.acquire()
    assert lease is not None
    lock.release()
    # As another process does that has the handle: it knows nothing of `min_hold`.
    assert run(lock.new_contender(lease.lock_id).drop(), lock.port())
    assert SmartLock(client, "it").acquire(timeout=0) is None
    assert json.loads(str(conn.get(KEY)))["released"] is True


def test_a_refused_contender_writes_nothing(client: "redis.Redis", conn: "redis.Redis") -> None:
    """Even when the memory is full, the contender learns that the lock is held."""
    with SmartLock(client, "it", host="a"):
        conn.config_set("maxmemory", 1)
        try:
            assert SmartLock(client, "it", host="b").acquire(timeout=0) is None
        finally:
            conn.config_set("maxmemory", 0)


@pytest.mark.parametrize("seed", [-1, 2**53])
def test_a_seed_that_redis_cannot_count_from_is_refused(
    client: "redis.Redis", conn: "redis.Redis", seed: int
) -> None:
    with pytest.raises(ValueError, match="seed"):
        SmartLock(client, "it", seed=lambda: seed).acquire()
    with pytest.raises(ValueError, match="seed"):
        Semaphore(client, "it", 1, seed=lambda: seed).acquire(timeout=0)
    assert conn.keys() == []


def test_an_unknown_fence_is_asked_for_after_a_break_too(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    lock = SmartLock(client, "it", seed=lambda: 100)
    lock.acquire()
    conn.delete("inturn:{it}:fence")
    assert lock.break_()
    lease = lock.acquire(timeout=1)
    assert lease is not None
    assert lease.fence == 101


@pytest.mark.parametrize("end", ['"}', '","hostname":'])
@pytest.mark.statement("S4")
def test_only_the_whole_lock_id_at_the_beginning_is_ours(conn: "redis.Redis", end: str) -> None:
    lock = SmartLock(conn, "it")
    lock.acquire()
    raw = str(conn.get(KEY))
    ours = json.loads(raw)["lock_id"]
    other = foreign("db-7", note=f'{{"lock_id":"{ours}{end}')
    conn.set(KEY, other)
    with pytest.raises(LockLost):
        lock.release()
    assert conn.get(KEY) == other


def test_a_loss_during_the_body_cannot_be_overlooked(client: "redis.Redis") -> None:
    with pytest.raises(LockLost), SmartLock(client, "it"):
        SmartLock(client, "it").break_()


def test_the_bodys_own_error_is_not_hidden_by_a_loss(client: "redis.Redis") -> None:
    with pytest.raises(KeyError), SmartLock(client, "it"):
        SmartLock(client, "it").break_()
        raise KeyError


def test_a_lease_that_nobody_refers_to_is_not_renewed(client: "redis.Redis") -> None:
    SmartLock(client, "it", ttl=0.5).acquire()
    with SmartLock(client, "it", host="another", timeout=20):
        holder = SmartLock(client, "it").holder()
        assert holder is not None
        assert holder.owner == "another"


@pytest.mark.landing
@pytest.mark.usefixtures("renewed_soon")
def test_a_handle_is_released_by_another_process(
    conn: "redis.Redis", socket: str, spawn: Spawn
) -> None:
    lock = SmartLock(conn, "it", portable=True)
    lease = lock.acquire()
    assert lease is not None
    other = spawn(
        "import sys, redis; from inturn.locks import SmartLock\n"
        "lock = SmartLock(redis.Redis(unix_socket_path=sys.argv[1]), 'it')\n"
        "lock.from_handle(sys.argv[2]).release(); print('released', flush=True)",
        socket,
        lease.handle(),
    )
    assert other.line() == "released"
    assert not lock.locked()
    until(lambda: lease.released)  # the watchdog notices, and does not call it lost
    assert not lease.lost


@pytest.mark.parametrize("text", ["", "é", "it", '["it"]', '{"name": "it", "lock_id": "1"}'])
def test_a_string_that_is_no_handle_is_refused(client: "redis.Redis", text: str) -> None:
    for handle in (text, urlsafe_b64encode(text.encode()).decode()):
        with pytest.raises(ValueError, match="not a lock's handle"):
            SmartLock(client, "it").from_handle(handle)


def test_a_forked_childs_lease_is_invalid_and_touches_nothing(client: "redis.Redis") -> None:
    lock = SmartLock(client, "it")
    with lock as lease:
        assert lease is not None

        def child(answers: Any) -> None:
            answer: list[Any] = [lease.valid, lock.owned()]
            try:
                lease.release()
            except Exception as error:
                answer.append(type(error).__name__)
            answers.put(answer)

        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        process = context.Process(target=child, args=(answers,))
        process.start()
        assert answers.get(timeout=20) == [False, False, "LockNotHeld"]
        process.join()
        answers.close()
        answers.join_thread()
        assert lock.owned()


@pytest.mark.parametrize(
    "name", ["{tag}", "with {tag} inside", "a}b", "sp ace", "ünï", "\x00\x01", "x" * 1024]
)
@pytest.mark.statement("X44")
def test_odd_names_keep_all_keys_in_one_slot(conn: "redis.Redis", name: str) -> None:
    from redis.crc import key_slot

    lock = SmartLock(conn, name)
    with lock as lease:
        assert lease is not None
        keys = [lock.keys.lock, lock.keys.of("fence"), lock.keys.mark(lease.lock_id)]
        assert len({key_slot(key) for key in keys}) == 1
        assert SmartLock(conn, name).locked()


@pytest.mark.parametrize(
    "given",
    [{"name": "\udc80"}, {"host": "web\udc80"}, {"prefix": "\udc80"}, {"process": "\udc80"}],
)
@pytest.mark.statement("X44")
def test_names_that_are_not_utf8_are_refused_when_the_lock_is_made(
    conn: "redis.Redis", given: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"^(name|host): .*cannot be written as UTF-8"):
        SmartLock(conn, **{"name": "it", **given})


@pytest.mark.parametrize("name", ["", "}x", "x" * 1025])
@pytest.mark.statement("X44")
def test_names_that_no_key_can_carry_are_refused(conn: "redis.Redis", name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        SmartLock(conn, name)


@pytest.mark.parametrize("kind", ["list", "hash", "set", "zset", "stream"])
@pytest.mark.statement("X44")
def test_a_key_of_another_type_is_reported_and_kept(client: "redis.Redis", kind: str) -> None:
    make_of_type(client, kind, KEY)
    for lock in (SmartLock(client, "it"), BasicLock(client, "it")):
        with pytest.raises(LockMalformed, match=kind):
            lock.acquire(timeout=0)
        with pytest.raises(LockMalformed, match=kind):
            lock.break_()
    assert client.type(KEY) in (kind, kind.encode())


def test_waiting_hears_of_the_release_and_does_not_poll(
    client: "redis.Redis", conn: "redis.Redis"
) -> None:
    lease = SmartLock(client, "it", host="a").acquire()
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        with SmartLock(client, "it", host="b", timeout=20):
            pass

    def count() -> int:
        waiting.wait()
        until(lambda: conn.pubsub_numsub("inturn:{it}")[0][1] == 1)
        before: Any = conn.info("commandstats")
        time.sleep(1.0)  # time in which it would poll
        after: Any = conn.info("commandstats")
        assert lease is not None
        lease.release()
        return calls(after) - calls(before)

    assert in_threads(wait, count)[1] <= 12  # a spinning waiter would try hundreds of times


def calls(stats: Any) -> int:
    return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))
