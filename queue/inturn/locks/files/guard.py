"""Guards. A guard is a file that stays locked while its process is alive, and so proves its death.

A process creates its guard with its first smart lock and names it in the value of every lock that
it takes. If a guard exists and can be locked, its process is dead for good, because no name is used
twice. If a guard is missing, nothing is proven, and nothing is stolen: it may belong to another
user, be in a private /tmp, or have been cleaned up.
"""

import atexit
import fcntl
import os
import re
import secrets
import stat
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from inturn.locks.errors import LockBackendError
from inturn.locks.files.open_file import OpenFile, open_lock_file

LOOK_INTERVAL = 60.0  # seconds; programs that clean /tmp wait for days
SWEEP_INTERVAL = 3600.0
LEFT_FOR = 86_400.0  # seconds for which a dead process's guard is kept as proof
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
SWEPT = "swept"  # a file as old as the last sweep


class Guard:
    """The guard of one process. Its `name` is in the values of the locks.

    The name contains the inode, so that a copy of the file proves nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._file = open_lock_file(folder / secrets.token_hex(16))
        if not self._file.lock(fcntl.LOCK_EX):
            raise LockBackendError(
                f"{self._file.path} was locked by another process as it was created"
            )
        self.name = f"{self._file.path.name}-{self._file.inode[1]}"
        # No other file has this position. It is the cheapest way to recognise our open file.
        position = 1 + secrets.randbelow(2**31 - 1)
        self._position = os.lseek(self._file.fd, position, os.SEEK_SET)
        self._look_at = time.monotonic() + LOOK_INTERVAL

    def is_good(self) -> bool:
        """Return True if we still have the guard locked, and it is where others look for it.

        Once a minute this also refreshes the file's date, so that it is not cleaned up.
        """
        if not self._is_open():
            return False
        now = time.monotonic()
        if now >= self._look_at:
            if not self._file.is_at_path():
                return False
            self._look_at = now + LOOK_INTERVAL
            with suppress(OSError):  # the process may have changed its user
                os.utime(self._file.fd)
        return True

    def _is_open(self) -> bool:
        """Return False if our descriptor was closed.

        Its number may now belong to another file, so it is never touched again.
        """
        with suppress(OSError):
            if os.lseek(self._file.fd, 0, os.SEEK_CUR) == self._position:
                return True
        self._file.fd = -1
        return False

    def remove(self) -> None:
        """Remove the file, but keep it locked: another process may be checking it right now."""
        with suppress(OSError):
            self._file.path.unlink()


class Guards:
    """The guards of this process, and the locks that it may hold."""

    def __init__(self) -> None:
        self.after_fork()

    def after_fork(self) -> None:
        """Start without guards and locks."""
        # The last one is in use. Cleaned-up ones stay locked for the locks that name them.
        self.made: list[Guard] = []
        self.lock_ids: set[str] = set()  # those that may be in a store
        self._making = threading.RLock()

    def make(self, known: int) -> None:
        """Create a guard, unless another thread has done so since there were `known` ones."""
        with self._making:
            if len(self.made) == known:
                folder = _make_folder()
                with suppress(OSError, LockBackendError):
                    _sweep(folder)
                self.made.append(Guard(folder))


guards = Guards()
os.register_at_fork(after_in_child=guards.after_fork)


def guard_lock(lock_id: str) -> str:
    """Return the guard to name in the value of this lock, which counts as held from now on."""
    guards.lock_ids.add(lock_id)
    if not guards.made or not guards.made[-1].is_good():
        guards.make(known=len(guards.made))
    return guards.made[-1].name


def forget_lock(lock_id: str) -> None:
    """Note that the lock is no longer held."""
    guards.lock_ids.discard(lock_id)


def keep_guard_fresh() -> None:
    """Refresh the guard's date. A new guard would not help the locks that name the old one."""
    for guard in guards.made[-1:]:
        guard.is_good()


def is_dead(guard: str) -> bool:
    """Return True if the process of this guard is proven dead.

    The name comes from a lock's value, so it is only trusted if it looks like a guard's.
    """
    if not re.fullmatch("[0-9a-f]{32}-[0-9]{1,20}", guard):
        return False
    name, _, inode = guard.partition("-")
    folder = Path(tempfile.gettempdir(), _folder_name())
    with suppress(OSError):
        if _is_ours(folder.lstat()) and (file := _lock_if_dead(folder / name)):
            file.close()
            return file.inode[1] == int(inode)
    return False


def _lock_if_dead(path: Path) -> OpenFile | None:
    """Lock the guard of a dead process, with a lock shared by concurrent checks."""
    with suppress(FileNotFoundError, LockBackendError):
        file = open_lock_file(path, create=False)
        if file.lock(fcntl.LOCK_SH):
            return file
        file.close()
    return None


def _sweep(folder: Path) -> None:
    """Remove the files of processes that crashed long ago.

    It runs once an hour, because there may be many guards of live processes to check.
    """
    with suppress(FileNotFoundError):
        if time.time() - (folder / SWEPT).stat().st_mtime < SWEEP_INTERVAL:
            return
    (folder / SWEPT).touch(0o600)
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process has ended, or sweeps too
            if path.name == SWEPT or time.time() - path.lstat().st_mtime <= LEFT_FOR:
                continue
            if file := _lock_if_dead(path):
                path.unlink()
                file.close()


@cache
def boot_id() -> str | None:
    """Return the kernel's id of this boot, or None if it is hidden from us."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None


def _make_folder() -> Path:
    folder = Path(tempfile.gettempdir(), _folder_name())
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError as error:
        raise LockBackendError(
            f"{folder} cannot be created: {error.strerror}; set TMPDIR"
        ) from error
    if not _is_ours(status):
        raise LockBackendError(
            f"{folder} must be a folder that only this user can write to; remove it, or set TMPDIR"
        )
    return folder


def _is_ours(status: os.stat_result) -> bool:
    """Return True for a folder that no other user can write to.

    In any other, another user could replace a guard with another file of ours.
    """
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & WRITABLE_BY_OTHERS
    )


def _folder_name() -> str:
    return f"inturn-locks-{os.geteuid()}"


@atexit.register
def _remove_guards() -> None:
    # If a lock may outlive us, its guard must stay as proof that we are dead.
    if not guards.lock_ids:
        for guard in guards.made:
            guard.remove()
