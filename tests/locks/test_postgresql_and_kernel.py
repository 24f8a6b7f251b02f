"""What is particular to PostgreSQL's locks and to those of the kernel."""

import os
import re
import stat
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from inturn.locks import (
    KernelFileLock,
    LockBackendError,
    LockDeadlock,
    LockError,
    LockLost,
    PgLock,
    check_lock_fence,
    install,
)
from inturn.locks.files import filesystem
from tests.locks.conftest import Spawn, in_threads, until


@pytest.fixture
def pg(empty_dsn: str) -> str:
    install(empty_dsn)
    return empty_dsn


# ---------------------------------------------------------------- PostgreSQL


def test_a_transactions_lock_ends_with_the_transaction(pg: str) -> None:
    for end in ("commit", "rollback"):
        with psycopg.connect(pg) as connection:
            with PgLock(connection, "it", mode="transaction") as lease:
                assert lease is not None
                assert PgLock(pg, "it").acquire(timeout=0) is None
            assert PgLock(pg, "it").acquire(timeout=0) is None  # still: what it protects is not committed yet
            getattr(connection, end)()
            with PgLock(pg, "it", timeout=0):
                pass


def test_a_transactions_lock_needs_a_transaction(pg: str) -> None:
    with psycopg.connect(pg, autocommit=True) as connection:
        with pytest.raises(LockError, match="no open transaction"):
            PgLock(connection, "it", mode="transaction").acquire()
        with connection.transaction(), PgLock(connection, "it", mode="transaction"):
            pass


def test_a_session_lock_has_its_own_connection_and_leaves_none(pg: str) -> None:
    with psycopg.connect(pg, autocommit=True) as watcher:

        def sessions() -> int:
            row = watcher.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inturn lock'"
                " AND datname = current_database()"
            ).fetchone()
            assert row is not None
            return int(row[0])

        with PgLock(pg, "it"):
            assert sessions() == 1
            assert PgLock(pg, "it").acquire(timeout=0) is None
        until(lambda: sessions() == 0)


def test_waiters_stand_in_the_servers_queue(pg: str) -> None:
    with psycopg.connect(pg, autocommit=True) as watcher:
        held = PgLock(pg, "it").acquire()
        assert held is not None

        def release() -> None:
            until(
                lambda: watcher.execute("SELECT 1 FROM pg_locks WHERE locktype='advisory' AND NOT granted").fetchone()
            )
            held.release()

        def wait() -> None:
            with PgLock(pg, "it", timeout=20):
                pass

        in_threads(release, wait)


def test_a_deadlock_that_the_server_finds_is_named(pg: str) -> None:
    """Two sessions that each hold what the other wants; one of them is told."""
    from inturn.locks.postgres.ports import PgPort, Query

    a, b = PgLock(pg, "a"), PgLock(pg, "b")
    ports = [PgPort(pg), PgPort(pg)]
    for port, lock in zip(ports, (a, b), strict=True):
        port.do(Query("SELECT pg_advisory_lock(%s)", (lock.key,)))
    from inturn.locks.core.protocol import run

    def want(lock: Any, port: Any) -> Any:
        try:
            return run(lock.new_contender().take(10.0), port)
        except LockDeadlock:
            port.close()  # it gives way
            return "deadlock"

    results = in_threads(lambda: want(b, ports[0]), lambda: want(a, ports[1]))
    assert results.count("deadlock") == 1
    for port in ports:
        port.close()


def test_waiting_for_oneself_is_a_deadlock_and_not_for_ever(pg: str) -> None:
    lock = PgLock(pg, "it")
    with lock, pytest.raises(LockDeadlock, match="yourself"):
        lock.acquire()


def test_without_its_table_it_says_what_to_do(empty_dsn: str) -> None:
    with pytest.raises(LockBackendError, match=r"inturn\.locks\.install"):
        PgLock(empty_dsn, "it", mode="table").acquire()
    in_threads(*[lambda: install(empty_dsn)] * 4)


@pytest.mark.parametrize("wrong", [{"mode": "row"}, {"ttl": 5}, {"mode": "table", "ttl": 0}, {"mode": "transaction"}])
def test_terms_that_make_no_sense_are_refused(pg: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"mode|ttl"):
        PgLock(pg, "it", **wrong)


def test_a_fence_check_keeps_later_holders_waiting_until_the_commit(pg: str) -> None:
    with psycopg.connect(pg) as first, psycopg.connect(pg) as second:
        check_lock_fence(first, "it", 1)
        passed = threading.Event()

        def later() -> None:
            check_lock_fence(second, "it", 2)
            passed.set()
            second.commit()

        def commit() -> None:
            with psycopg.connect(pg, autocommit=True) as watcher:
                until(lambda: watcher.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone())
            assert not passed.is_set()
            first.commit()

        in_threads(later, commit)
        with pytest.raises(LockLost):
            check_lock_fence(first, "it", 1)


# ---------------------------------------------------------------- kernel


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "it.lock"


def test_shared_holders_exclude_exclusive_ones(path: Path) -> None:
    readers = [KernelFileLock(path, shared=True) for _ in range(3)]
    leases = [reader.acquire(timeout=0) for reader in readers]
    assert all(leases)
    assert KernelFileLock(path).acquire(timeout=0) is None
    for lease in leases:
        assert lease is not None
        lease.release()
    with KernelFileLock(path):
        assert KernelFileLock(path, shared=True).acquire(timeout=0) is None


def test_slots_let_so_many_in(path: Path) -> None:
    lock = KernelFileLock(path, slots=3)
    leases = [lock.acquire(timeout=0) for _ in range(4)]
    assert [lease is not None for lease in leases] == [True, True, True, False]
    assert lock.locked()
    assert leases[1] is not None
    leases[1].release()
    assert not lock.locked()
    assert lock.acquire(timeout=0)
    for _ in range(3):
        lock.release()


def test_the_file_stays_and_is_private(path: Path) -> None:
    with KernelFileLock(path) as lease:
        inode = path.stat().st_ino
        assert lease is not None
        holder = KernelFileLock(path).holder()
        assert holder is not None
        assert holder.lock_id == lease.lock_id
        assert f"pid {os.getpid()}" in str(holder.owner)
    assert path.stat().st_ino == inode
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_removed_by_hand_is_a_loss(path: Path) -> None:
    lock = KernelFileLock(path)
    with pytest.raises(LockLost), lock:
        path.unlink()
        assert not lock.owned()


def test_unknown_file_systems_are_refused_unless_told_otherwise(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = path.with_suffix(".mounts")
    mounts.write_text(f"1 1 0:1 / / rw - ext4 x x\n2 1 0:2 / {path.parent} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)  # as on a machine where this is mounted
    with pytest.raises(LockBackendError, match="nfs4"):
        KernelFileLock(path)
    with KernelFileLock(path, any_filesystem=True):
        pass


@pytest.mark.parametrize("kind", ["folder", "fifo", "link", "dangling link", "long", "socket"])
def test_X45_paths_that_are_no_regular_file_are_refused(tmp_path: Path, kind: str) -> None:
    from tests.locks.test_openlock import odd, odd_is_untouched

    path = odd(tmp_path, kind)
    with pytest.raises(LockBackendError):
        KernelFileLock(path).acquire(timeout=0)
    assert odd_is_untouched(path)


def test_X45_what_is_put_in_the_place_of_the_file_is_not_destroyed(path: Path) -> None:
    precious = path.with_suffix(".precious")
    precious.write_text("precious")
    path.symlink_to(precious)
    with pytest.raises(LockBackendError, match="symbolic link"):
        KernelFileLock(path).acquire(timeout=0)
    assert precious.read_text() == "precious"
    path.unlink()
    for contents in (
        "precious",
        '{"an": "object"}\n',
        '{"fence": 1} and more',
        '{"fence": "1"}',
        "12",
        "\nprecious",
        "[" * 4096,
        "{}",
    ):
        path.write_text(contents)
        with pytest.raises(LockBackendError, match="something other"):
            KernelFileLock(path).acquire(timeout=0)
        assert path.read_text() == contents


def test_X45_who_keeps_the_refusal_does_not_keep_the_file_locked(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(LockBackendError, match="something other") as kept:
        KernelFileLock(path).acquire(timeout=0)
    path.write_text("")
    with KernelFileLock(path, timeout=0):
        assert kept.value.__traceback__ is not None


def test_X45_another_users_file_is_refused(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's file")
    path.touch()
    os.chown(path, 12345, 12345)
    with pytest.raises(LockBackendError, match="another user"):
        KernelFileLock(path).acquire(timeout=0)
    with KernelFileLock(path, any_owner=True):
        pass


def test_X45_an_unwritable_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(LockBackendError, match="folder does not exist"):
        KernelFileLock(tmp_path / "no" / "it.lock").acquire()


def test_X45_a_tmpfs_will_do() -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, KernelFileLock(Path(folder) / "it.lock") as lease:
        assert lease is not None
        assert filesystem.get_filesystem(Path(folder)) == "tmpfs"


def test_X45_a_file_with_another_name_is_refused(tmp_path: Path, path: Path) -> None:
    """Somebody may have linked an empty file of ours to where a lock's file is made."""
    other = tmp_path / "of ours"
    other.touch()
    path.hardlink_to(other)
    with pytest.raises(LockBackendError, match="hard link"):
        KernelFileLock(path).acquire(timeout=0)
    assert other.read_bytes() == b""
    other.unlink()
    with KernelFileLock(path):
        pass


# As a disk does that is full: what a process may write ends after so many bytes.
ON_A_FULL_DISK = """
import resource, sys
from inturn.locks import KernelFileLock, LockError
from inturn.locks.compat.openlock import FileLock
kind, path, room = sys.argv[1:]
lock = {"kernel": KernelFileLock, "openlock": FileLock}[kind](path)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), resource.RLIM_INFINITY))
try:
    lock.acquire(timeout=0)
except LockError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
lock.acquire(timeout=0)
print("held")
lock.release()
"""


@pytest.mark.parametrize("kind", ["kernel", "openlock"])
@pytest.mark.parametrize("room", [0, 10])
def test_X45_a_full_disk_is_told_and_leaves_everything_as_it_was(
    kind: str, room: int, tmp_path: Path, path: Path, spawn: Spawn
) -> None:
    child = spawn(ON_A_FULL_DISK, kind, path, room)
    assert re.fullmatch(f"{tmp_path}/\\S+ cannot be written: File too large", child.line())
    assert child.line() == "held"
    assert child.process.wait(20) == 0
    assert {file.name for file in tmp_path.iterdir()} <= {"it.lock", ".it.lock.guard"}


def test_X45_a_full_disk_leaves_the_record_of_the_last_holder(path: Path, spawn: Spawn) -> None:
    with KernelFileLock(path):
        pass
    before = path.read_bytes()
    child = spawn(ON_A_FULL_DISK.replace("lock.acquire(timeout=0)\nprint", "print"), "kernel", path, 30)
    assert "cannot be written" in child.line()
    assert child.line() == "held"
    assert path.read_bytes() == before
