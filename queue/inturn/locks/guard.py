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
from functools import cache
from pathlib import Path

from inturn.locks.errors import LockBackendError
from inturn.locks.files import Held, open_regular


class Guard:
    def __init__(self, held: Held) -> None:
        self._held = held
        status = os.fstat(held.fd)
        self.identity = f"{boot_id()}/{status.st_dev}:{status.st_ino}"

    def free(self) -> None:
        self._held.close()


def take_guard(hostname: str, lock: str) -> Guard | None:
    """None: a process of this host holds the lock, or is trying to."""
    name = hashlib.sha256(f"{hostname}\0{lock}".encode()).hexdigest()[:32]
    held = open_regular(_folder(tempfile.gettempdir(), os.geteuid()) / name)
    if held.lock(fcntl.LOCK_EX):
        return Guard(held)
    held.close()
    return None


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
