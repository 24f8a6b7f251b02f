"""Faults: lost replies, silent servers, cut connections, stopped processes, and clock steps."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inturn.locks import (
    FileLock,
    KernelFileLock,
    LockBackendError,
    LockLost,
    PgLock,
    Semaphore,
    SmartLock,
    check_lock_fence,
    highest_fence,
)
from tests.locks.conftest import Spawn, at_any_pace, until
from tests.locks.lossy import Lossy

STOPPABLE = """
import sys, redis
from inturn.locks import LockLost, SmartLock
client = redis.Redis(unix_socket_path=sys.argv[1])
lease = SmartLock(client, "it", host="stopped", ttl=0.5).acquire()
print(lease.fence, flush=True)
sys.stdin.readline()
try:
    lease.ensure()
    print("held", flush=True)
except LockLost:
    print("lost", flush=True)
"""


@pytest.mark.parametrize("retries", [0, 3], ids=["seen by us", "repeated by the client"])
@pytest.mark.parametrize("kind", [SmartLock, Semaphore])
@pytest.mark.statement("P1")
def test_lost_replies_change_nothing(
    lossy: Lossy, conn: "redis.Redis", kind: Any, retries: int
) -> None:
    more = (1,) if kind is Semaphore else ()
    with redis.Redis(unix_socket_path=lossy.path, retry=Retry(NoBackoff(), retries)) as client:
        lock = kind(client, "it", *more)
        with lock:  # now it is connected, and the scripts are loaded
            pass
        lossy.lose_next_reply()
        lease = lock.acquire(timeout=0)
        assert lossy.lost.is_set()
        assert lease.fence == 2
        lossy.lose_next_reply()
        lock.release()
        assert lossy.lost.is_set()
    with kind(conn, "it", *more, timeout=0) as lease:
        assert lease.fence == 3


@pytest.mark.statement("P2")
def test_debug_sleep_a_silent_server_cannot_hide_the_end_of_a_lease(
    socket: str, conn: "redis.Redis"
) -> None:
    commands: Any = conn

    def hold(scale: float) -> None:
        with redis.Redis(
            unix_socket_path=socket, socket_timeout=0.2 * scale, retry=Retry(NoBackoff(), 0)
        ) as client:
            lease = SmartLock(client, "it", ttl=0.6 * scale).acquire()
            assert lease is not None
            asleep = threading.Thread(
                target=commands.execute_command, args=("DEBUG", "SLEEP", 2 * scale)
            )
            began = time.monotonic()
            asleep.start()
            try:
                assert lease.lost.wait(10 * scale)
                assert time.monotonic() - began < 1.8 * scale  # the server still sleeps
            finally:
                asleep.join()
            with pytest.raises(LockLost):
                lease.ensure()

    at_any_pace(hold)


@pytest.mark.statement("P3")
def test_client_pause_is_reported_within_the_socket_timeout(
    socket: str, conn: "redis.Redis"
) -> None:
    with redis.Redis(
        unix_socket_path=socket, socket_timeout=0.2, retry=Retry(NoBackoff(), 0)
    ) as client:
        lock = SmartLock(client, "it", ttl=1)
        with lock:
            pass
        conn.client_pause(60_000, all=False)
        began = time.monotonic()
        try:
            with pytest.raises(LockBackendError, match="Redis"):
                lock.acquire(timeout=0)
        finally:
            conn.client_unpause()
        assert time.monotonic() - began < 20
    # Whatever became of that request, its lock ended with its ttl.
    with SmartLock(conn, "it", timeout=20):
        pass


@pytest.mark.statement("P4")
def test_client_kill_a_lease_survives_its_connections(socket: str, conn: "redis.Redis") -> None:
    def hold(scale: float) -> None:
        with redis.Redis(unix_socket_path=socket, retry=Retry(NoBackoff(), 0)) as client:
            with SmartLock(client, "it", ttl=0.6 * scale) as lease:
                for _ in range(6):
                    conn.client_kill_filter(_type="normal", skipme=True)
                    time.sleep(0.2 * scale)  # two times to live
                assert lease is not None
                lease.ensure()
            assert not SmartLock(conn, "it").locked()

    at_any_pace(hold)


@pytest.mark.landing
@pytest.mark.statement("P5")
def test_sigstop_beyond_the_ttl_the_sleeper_learns_of_its_loss_and_is_fenced_off(
    conn: "redis.Redis", socket: str, spawn: Spawn, pg: str
) -> None:
    stopped = spawn(STOPPABLE, socket)
    fence = int(stopped.line())
    os.kill(stopped.pid, signal.SIGSTOP)
    with SmartLock(conn, "it", host="next", timeout=20) as lease, psycopg.connect(pg) as connection:
        assert lease is not None
        assert lease.fence is not None
        check_lock_fence(connection, "it", lease.fence)
        connection.commit()
        os.kill(stopped.pid, signal.SIGCONT)
        stopped.say("")
        assert stopped.line() == "lost"
        with pytest.raises(LockLost, match="refused"):
            check_lock_fence(connection, "it", fence)  # its late write
        check_lock_fence(connection, "it", lease.fence)


@pytest.mark.landing
@pytest.mark.statement("P6")
def test_sigkill_a_kernel_lock_is_free_at_once(tmp_path: Path, spawn: Spawn) -> None:
    path = tmp_path / "it.lock"
    holder = spawn(
        "import sys; from inturn.locks import KernelFileLock\n"
        "KernelFileLock(sys.argv[1]).acquire(); print('held', flush=True); sys.stdin.readline()",
        path,
    )
    holder.line()
    lock = KernelFileLock(path)
    assert lock.acquire(timeout=0) is None
    holder.kill()
    assert lock.acquire(timeout=0)
    lock.release()


@pytest.mark.statement("P7")
def test_fork_a_child_does_not_keep_the_parents_kernel_lock(tmp_path: Path) -> None:
    lock = KernelFileLock(tmp_path / "it.lock")
    lease = lock.acquire()
    assert lease is not None
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0 if not lease.valid else 1)
    try:
        # The child's copy has not unlocked it.
        assert KernelFileLock(tmp_path / "it.lock").acquire(timeout=0) is None
        lease.release()
        with KernelFileLock(tmp_path / "it.lock", timeout=0):
            pass
    finally:
        os.write(writing, b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("step", [-86_400, 86_400])
@pytest.mark.statement("P8")
def test_clock_steps_of_the_wall_clock_mean_nothing(client: "redis.Redis", step: float) -> None:
    with SmartLock(client, "it", host="a", ttl=30) as lease:
        with mock.patch("time.time", return_value=time.time() + step):
            assert lease is not None
            lease.ensure()
            assert SmartLock(client, "it", host="b").acquire(timeout=0) is None
            holder = SmartLock(client, "it").holder()
            assert holder is not None
            assert holder.age is not None
            assert holder.age < 60


@pytest.mark.statement("P8")
def test_clock_steps_of_the_monotonic_clock_end_a_lease(client: "redis.Redis") -> None:
    now = 100.0
    lock = SmartLock(client, "it", ttl=30, clock=lambda: now)
    lease = lock.acquire()
    assert lease is not None
    assert lease.remaining() == 30
    now += 29.9
    lease.ensure()
    now += 0.1  # as after a suspend, in which no thread ran
    assert not lease.valid
    with pytest.raises(LockLost):
        lease.ensure()
    with pytest.raises(LockLost):
        lock.release()


@pytest.mark.statement("P9")
def test_flushall_fences_heal_from_what_postgresql_has_seen(client: "redis.Redis", pg: str) -> None:
    asked = []

    def seed() -> int:
        asked.append(1)
        return highest_fence(pg, "it")

    def use() -> int:
        with SmartLock(client, "it", seed=seed) as lease, psycopg.connect(pg) as connection:
            assert lease is not None
            assert lease.fence is not None
            check_lock_fence(connection, "it", lease.fence)
            return lease.fence

    before = [use() for _ in range(3)]
    assert len(asked) == 1  # only while the fence is unknown
    client.flushall()
    after = [use() for _ in range(3)]
    assert before + after == [1, 2, 3, 4, 5, 6]
    assert len(asked) == 2


@pytest.mark.statement("P9")
def test_flushall_while_holding_is_noticed(client: "redis.Redis") -> None:
    lease = SmartLock(client, "it", ttl=0.6).acquire()
    client.flushall()
    assert lease is not None
    assert lease.lost.wait(10)


@pytest.mark.statement("P10")
def test_a_pid_namespace_does_not_hide_the_holder(tmp_path: Path, spawn: Spawn) -> None:
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*command, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this kernel lets us make no namespaces")
    path = tmp_path / "it.lock"
    holder = spawn(
        "",
        path,
        command=[*command, "--kill-child", sys.executable, "-c", NAMESPACED],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
    )
    pid = int(holder.line())
    assert pid < 100  # its number in the namespace, which means another process here, or none
    assert FileLock(str(path)).locked()
    holder.kill()
    until(lambda: not FileLock(str(path)).locked())


NAMESPACED = """
import os, sys
from inturn.locks import FileLock
FileLock(sys.argv[1]).acquire(); print(os.getpid(), flush=True); sys.stdin.readline()
"""


@pytest.mark.statement("P11")
def test_terminating_its_session_loses_a_postgresql_lock(
    pg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.locks.core.watchdog.PROOF_INTERVAL", 0.1)
    lock = PgLock(pg, "it")
    lease = lock.acquire()
    assert lease is not None
    notified = threading.Event()
    lease.on_lost(notified.set)
    assert PgLock(pg, "it").break_()
    with PgLock(pg, "it", timeout=10) as successor:
        assert successor is not None
        assert (successor.fence or 0) > (lease.fence or 0)
        assert notified.wait(10)
        with pytest.raises(LockLost):
            lease.release()


def test_a_missing_server_is_a_backend_error(tmp_path: Path) -> None:
    client = redis.Redis(unix_socket_path=str(tmp_path / "nothing"), retry=Retry(NoBackoff(), 0))
    with client, pytest.raises(LockBackendError, match="cannot be reached"):
        SmartLock(client, "it").acquire()
    with pytest.raises(LockBackendError, match="PostgreSQL"):
        PgLock(f"host={tmp_path} user=x", "it").acquire()
