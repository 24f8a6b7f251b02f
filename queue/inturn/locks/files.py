"""Files that are locked: opened without following links, regular, ours; never truncated; forgotten after a fork.

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
    if not stat.S_ISREG(held.status.st_mode):
        held.close()
        raise LockBackendError(f"{path} is no regular file")
    if not any_owner and held.status.st_uid != os.geteuid():
        held.close()
        raise LockBackendError(f"{path} belongs to another user, who could replace it; choose a path of your own")
    return held


_REASONS = {
    errno.ELOOP: "is a symbolic link; name the file itself",
    errno.EISDIR: "is a folder; name a file",
    errno.ENXIO: "is no regular file",
    errno.ENAMETOOLONG: "is too long a name",
    errno.EACCES: "may not be written by us",
    errno.EROFS: "is on a read-only file system",
}


def _forget() -> None:
    for held in list(_open):
        held.forget()


os.register_at_fork(after_in_child=_forget)
