"""Files that are locked: opened without following links, regular, ours, with one name; forgotten after a fork.

`flock` belongs to the open file, which a forked child shares: were the child to keep it, the lock would outlive its
holder, and were the child to unlock it, the parent would lose it. So the child closes its copy, which changes nothing.
Never a blocking `flock`, which cannot be killed on a network file system.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from inturn.locks.errors import LockBackendError

_open: "WeakSet[Held]" = WeakSet()


class Held:
    """An open file that may be locked."""

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = fd
        self.path = path
        self.status = os.fstat(fd)
        self.inode = self.status.st_dev, self.status.st_ino
        _open.add(self)

    def lock(self, kind: int) -> bool:
        """False if somebody else has it."""
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise LockBackendError(f"{self.path} cannot be locked: {error.strerror}") from error
        return True

    def unlock(self) -> bool:
        """False if there is nothing to unlock: it was closed, or belongs to the process that we were forked from."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_UN)
        except (OSError, ValueError):
            return False
        return True

    def is_at_path(self) -> bool:
        """False if the file was removed or replaced since it was opened."""
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return self.fd >= 0 and (there.st_dev, there.st_ino) == self.inode

    def write(self, text: bytes) -> None:
        """Write all of it at the beginning, or leave the file as it was; at once, unless the disk is nearly full."""
        before, size = os.pread(self.fd, len(text), 0), os.fstat(self.fd).st_size
        written = 0
        try:
            while written < len(text):
                written += os.pwrite(self.fd, text[written:], written)
        except OSError as error:
            with suppress(OSError):
                os.pwrite(self.fd, before, 0)
                os.ftruncate(self.fd, size)
            raise LockBackendError(f"{self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            # Not left to the end of the file: a child that was forked this moment still has it open.
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def forget(self) -> None:
        """In a child: unlocking would unlock the parent's."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def open_regular(path: Path, *, create: bool = True, write: bool = True, any_owner: bool = False) -> Held:
    """Raises FileNotFoundError only when it is not to create."""
    flags = (
        (os.O_RDWR if write else os.O_RDONLY)
        | os.O_NOFOLLOW
        | os.O_CLOEXEC
        | os.O_NONBLOCK
        | (os.O_CREAT if create else 0)
    )
    try:
        held = Held(os.open(path, flags, 0o600), path)
    except FileNotFoundError:
        if create:
            raise LockBackendError(f"{path}: its folder does not exist") from None
        raise
    except OSError as error:
        raise LockBackendError(
            f"{path} {_REASONS.get(error.errno or 0, f'cannot be opened: {error.strerror}')}"
        ) from error
    problem = _problem(held.status, write, any_owner)
    if problem is not None:
        held.close()
        raise LockBackendError(f"{path} {problem}")
    return held


def _problem(status: os.stat_result, write: bool, any_owner: bool) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if not any_owner and status.st_uid != os.geteuid():
        return "belongs to another user, who could replace it; choose a path of your own"
    if write and status.st_nlink > 1:
        return "has another name (a hard link), so it may be somebody's file; remove it, or choose another path"
    return None


_REASONS = {
    errno.ELOOP: "is a symbolic link; name the file itself",
    errno.EISDIR: "is a folder; name a file",
    errno.ENXIO: "is not a regular file",
    errno.ENAMETOOLONG: "is too long a name",
    errno.EACCES: "may not be written by us",
    errno.EROFS: "is on a read-only file system",
}


def _forget() -> None:
    for held in list(_open):
        held.forget()


os.register_at_fork(after_in_child=_forget)
