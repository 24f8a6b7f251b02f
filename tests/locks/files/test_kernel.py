"""What only the kernel's file locks do."""

import os
import re
import stat
from pathlib import Path

import pytest

from inturn.locks import (
    Holder,
    KernelFileLock,
    LockBackendError,
    LockLost,
    LockTimeout,
)
from inturn.locks.files import filesystem
from tests.locks.conftest import Spawn
from tests.locks.odd import is_untouched, make_odd_path


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


def test_shared_holders_are_not_taken_for_the_last_exclusive_one(path: Path) -> None:
    with KernelFileLock(path):
        pass
    with KernelFileLock(path, shared=True):
        assert KernelFileLock(path).holder() == Holder(str(path))
        with pytest.raises(LockTimeout) as refused, KernelFileLock(path, timeout=0):
            pytest.fail("it ran")
    assert refused.value.owner is None


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


def test_unknown_file_systems_are_refused_unless_allowed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = path.with_suffix(".mounts")
    mounts.write_text(f"1 1 0:1 / / rw - ext4 x x\n2 1 0:2 / {path.parent} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)  # as if this were mounted
    with pytest.raises(LockBackendError, match="nfs4"):
        KernelFileLock(path)
    with KernelFileLock(path, any_filesystem=True):
        pass


@pytest.mark.parametrize("kind", ["folder", "fifo", "link", "dangling link", "long", "socket"])
@pytest.mark.statement("X45")
def test_paths_that_are_not_regular_files_are_refused(tmp_path: Path, kind: str) -> None:
    path = make_odd_path(tmp_path, kind)
    with pytest.raises(LockBackendError):
        KernelFileLock(path).acquire(timeout=0)
    assert is_untouched(path)


@pytest.mark.statement("X45")
def test_something_else_in_the_place_of_the_file_is_not_destroyed(path: Path) -> None:
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


@pytest.mark.statement("X45")
def test_a_reference_to_the_error_does_not_keep_the_file_locked(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(LockBackendError, match="something other") as kept:
        KernelFileLock(path).acquire(timeout=0)
    path.write_text("")
    with KernelFileLock(path, timeout=0):
        assert kept.value.__traceback__ is not None


@pytest.mark.statement("X45")
def test_another_users_file_is_refused(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's file")
    path.touch()
    os.chown(path, 12345, 12345)
    with pytest.raises(LockBackendError, match="another user"):
        KernelFileLock(path).acquire(timeout=0)
    with KernelFileLock(path, any_owner=True):
        pass


@pytest.mark.statement("X45")
def test_an_unwritable_place_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LockBackendError, match="folder does not exist"):
        KernelFileLock(tmp_path / "no" / "it.lock").acquire()


@pytest.mark.statement("X45")
def test_a_tmpfs_will_do() -> None:
    import tempfile

    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        KernelFileLock(Path(folder) / "it.lock") as lease,
    ):
        assert lease is not None
        assert filesystem.get_filesystem(Path(folder)) == "tmpfs"


@pytest.mark.statement("X45")
def test_a_file_with_another_name_is_refused(tmp_path: Path, path: Path) -> None:
    """There may be a link to an empty file of ours in the place of the lock's file."""
    other = tmp_path / "of ours"
    other.touch()
    path.hardlink_to(other)
    with pytest.raises(LockBackendError, match="hard link"):
        KernelFileLock(path).acquire(timeout=0)
    assert other.read_bytes() == b""
    other.unlink()
    with KernelFileLock(path):
        pass


# Like a full disk: the process may not write more than so many bytes.
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


@pytest.mark.landing
@pytest.mark.parametrize("kind", ["kernel", "openlock"])
@pytest.mark.parametrize("room", [0, 10])
@pytest.mark.statement("X45")
def test_a_full_disk_is_reported_and_leaves_everything_as_it_was(
    kind: str, room: int, tmp_path: Path, path: Path, spawn: Spawn
) -> None:
    child = spawn(ON_A_FULL_DISK, kind, path, room)
    assert re.fullmatch(f"{tmp_path}/\\S+ cannot be written: File too large", child.line())
    assert child.line() == "held"
    assert child.process.wait(20) == 0
    assert {file.name for file in tmp_path.iterdir()} <= {"it.lock", ".it.lock.guard"}


@pytest.mark.landing
@pytest.mark.statement("X45")
def test_a_full_disk_leaves_the_record_of_the_last_holder(path: Path, spawn: Spawn) -> None:
    with KernelFileLock(path):
        pass
    before = path.read_bytes()
    child = spawn(
        ON_A_FULL_DISK.replace("lock.acquire(timeout=0)\nprint", "print"), "kernel", path, 30
    )
    assert "cannot be written" in child.line()
    assert child.line() == "held"
    assert path.read_bytes() == before
