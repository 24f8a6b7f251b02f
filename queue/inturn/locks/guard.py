"""The kernel's proof that a process of this host lives: a locked file that nobody else can have locked.

A smart lock's holder keeps its guard for as long as the lock, and names it in the lock's value. Whoever has the same
guard thereby knows that the holder is dead. A guard in another folder (another user, a private /tmp) has another
identity and proves nothing, so nothing is stolen there.
"""

import fcntl
import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from inturn.locks.errors import LockBackendError
from inturn.locks.files import Held, open_regular

MOST_IDLE = 32  # open files that are kept for the next time, in a process
_idle: "dict[Path, Guard]" = {}


class Guard:
    def __init__(self, held: Held) -> None:
        self._held = held
        device, inode = held.inode
        self.identity = f"{boot_id()}/{device}:{inode}"

    def take(self) -> bool:
        return self._held.lock(fcntl.LOCK_EX)

    def usable(self) -> bool:
        """Still where others look for it; not after a fork, nor when the folder was tidied."""
        return self._held.is_at_path()

    def free(self) -> None:
        """Unlock it, and keep the file open for the next time: opening costs more than all the rest."""
        if len(_idle) < MOST_IDLE and self._held.unlock():
            _idle[self._held.path] = self
        else:
            self._held.close()


def take_guard(hostname: str, lock: str) -> Guard | None:
    """None: a process of this host holds the lock, or is trying to."""
    path = _path(tempfile.gettempdir(), os.geteuid(), hostname, lock)
    guard = _idle.pop(path, None)  # one thread's alone: a file that is open once is locked once
    if guard is None or not guard.usable():
        guard = Guard(open_regular(path))
    if guard.take():
        return guard
    guard.free()
    return None


@lru_cache(1024)
def _path(parent: str, uid: int, hostname: str, lock: str) -> Path:
    return _folder(parent, uid) / hashlib.sha256(f"{hostname}\0{lock}".encode()).hexdigest()[:32]


@cache
def boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return "unknown"


@cache
def _folder(parent: str, uid: int) -> Path:
    folder = Path(parent) / f"inturn-locks-{uid}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or status.st_uid != uid:
        raise LockBackendError(f"{folder} is not a folder of ours; remove it, or set TMPDIR")
    return folder
