"""Open files that can be locked, and the checks that a path must pass first.

A file is opened without following links. It must be a regular file, ours, with a single name.

`flock` belongs to the open file, which a forked child shares. If the child kept it, the lock would
outlive its holder. If the child unlocked it, the parent would lose it. The child therefore only
closes its copy, which does not affect the parent.

Blocking `flock` is never used, because on a network file system it cannot be killed.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from inturn.locks.errors import LockBackendError

SAFELY = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class OpenFile:
    """An open file that may be locked."""

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = fd
        self.path = path
        self.status = os.fstat(fd)
        self.inode = self.status.st_dev, self.status.st_ino
        open_files.add(self)

    def lock(self, kind: int) -> bool:
        """Lock the file, without waiting. Return False if it is already locked."""
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise LockBackendError(f"{self.path} cannot be locked: {error.strerror}") from error
        return True

    def is_at_path(self) -> bool:
        """Return False if the file was removed or replaced after it was opened."""
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return self.fd >= 0 and (there.st_dev, there.st_ino) == self.inode

    def write(self, text: bytes) -> None:
        """Write the whole text at the beginning, or leave the file as it was.

        It is a single write, unless the disk is nearly full.
        """
        before, size = os.pread(self.fd, len(text), 0), os.fstat(self.fd).st_size
        done = 0
        try:
            while done < len(text):
                done += os.pwrite(self.fd, text[done:], done)
        except OSError as error:
            with suppress(OSError):
                os.pwrite(self.fd, before, 0)
                os.ftruncate(self.fd, size)
            raise LockBackendError(f"{self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            # Unlock now: a child forked at this moment still has the file open.
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def __del__(self) -> None:
        self.close()


open_files: WeakSet[OpenFile] = WeakSet()


def _forget_open_files() -> None:
    """Close the files without unlocking them, which in a child would unlock the parent's."""
    for file in list(open_files):
        fd, file.fd = file.fd, -1
        with suppress(OSError):  # its descriptor was closed
            os.close(fd)


os.register_at_fork(after_in_child=_forget_open_files)


def open_lock_file(
    path: Path, *, create: bool = True, write: bool = True, any_owner: bool = False
) -> OpenFile:
    """Open a file that passes the checks, or raise LockBackendError.

    With `create=False`, raise FileNotFoundError if there is no such file.
    """
    flags = SAFELY | (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
    try:
        file = OpenFile(os.open(path, flags, 0o600), path)
    except FileNotFoundError:
        if create:
            raise LockBackendError(f"{path}: its folder does not exist; create it") from None
        raise
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"cannot be opened: {error.strerror}")
        raise LockBackendError(f"{path} {reason}") from error
    problem = _find_problem(file.status, write, any_owner)
    if problem is not None:
        file.close()
        raise LockBackendError(f"{path} {problem}")
    return file


def _find_problem(status: os.stat_result, write: bool, any_owner: bool) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file; choose another path"
    if not any_owner and status.st_uid != os.geteuid():
        return "belongs to another user, who could replace it; choose a path of your own"
    if write and status.st_nlink > 1:
        return (
            "has another name (a hard link), so it may be another program's file; remove it, or "
            "choose another path"
        )
    return None


_REASONS = {
    errno.ELOOP: "is a symbolic link; use the file itself",
    errno.EISDIR: "is a folder; use a file",
    errno.ENXIO: "is not a regular file; choose another path",
    errno.ENAMETOOLONG: "has too long a name; choose a shorter one",
    errno.EACCES: "is not writable by this user; choose a path of your own",
    errno.EROFS: "is on a read-only file system; choose another path",
}
