"""A drop-in for the library `openlock`: the same names and the same lock file, without its defects.

**Promises (a mutex).** The lock file names the lock's holder. While it is held, the file's inode is
locked too, so others know at once and for certain when the holder has ended, in any way. Every
change is made under a brief lock on a second file (`.name.guard`, never deleted), so that only one
of several processes takes over from a dead holder.

It interoperates with processes that use `openlock` itself: each respects the other's locks, as far
as they find us in their process table. We wait for `race_delay` only when we replace one of their
files. If you remove the file by hand, the lock is free.

**Limits.** It does not exclude a peer that misjudges our file, or a process on another host of a
network file system.
"""

import atexit
import copy
import fcntl
import logging
import os
import secrets
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal, Self, TypedDict, Unpack

from inturn.locks.compat.lockfile import (
    LockFileRecord,
    foreign_holder_lives,
    make_own_record,
    parse_record,
)
from inturn.locks.core.pauses import LONGEST_PAUSE, grow_pauses
from inturn.locks.errors import LockBackendError, LockError
from inturn.locks.files.filesystem import refuse_unknown_filesystem
from inturn.locks.files.open_file import OpenFile, open_lock_file

__all__ = [
    "Defaults",
    "FileLock",
    "InvalidLockFile",
    "InvalidOption",
    "InvalidRelease",
    "OpenLockException",
    "Timeout",
    "get_defaults",
    "logger",
    "set_defaults",
]

logger = logging.getLogger(__name__)
GUARD_PATIENCE = 5.0  # seconds; a guard is held for milliseconds, unless its holder was stopped
LONGEST_RECORD = 65536


class OpenLockException(LockError):
    """The base of every error here."""


class Timeout(OpenLockException):
    """The lock was held elsewhere for as long as the caller would wait."""


class InvalidRelease(OpenLockException):
    """The lock to release is not ours."""


class InvalidLockFile(OpenLockException):
    """No valid lock file could be created."""


class InvalidOption(OpenLockException):
    """The option does not exist."""


class Defaults(TypedDict, total=False):
    """How lock files are created and waited for."""

    race_delay: float  # seconds before our own file is confirmed
    tries: int  # attempts to create a valid one
    retry_period: float  # seconds between two tries


_defaults: Defaults = {"race_delay": 0.2, "tries": 2, "retry_period": 0.3}


def get_defaults() -> Defaults:
    return copy.copy(_defaults)


def set_defaults(**kw: Unpack[Defaults]) -> None:
    """Change the defaults for locks created from now on."""
    for key in kw:
        if key not in _defaults:
            raise InvalidOption(f"Invalid option: '{key}'")
    _defaults.update(kw)


# The locks that this process holds, even if nothing else refers to them.
held_locks: "set[FileLock]" = set()
os.register_at_fork(after_in_child=held_locks.clear)


class FileLock:
    """Mutex. A drop-in for `openlock.FileLock`, on the same lock file."""

    any_filesystem = False  # set it if `flock` works although the file system is unknown

    def __init__(
        self, lock_file: str | os.PathLike[str] = "openlock.lock", timeout: float | None = None
    ) -> None:
        self.lock_file = Path(lock_file)
        self.timeout = timeout
        self._options = get_defaults()
        self._held: OpenFile | None = None
        self._pid = 0
        self._changing = threading.Lock()  # never held while waiting
        logger.debug("%s created", self)

    def __str__(self) -> str:
        return f"FileLock('{self.lock_file}')"

    __repr__ = __str__

    def acquire(self, timeout: float | None = None) -> None:
        """Wait up to `timeout` seconds, then raise Timeout. 0 means a single try.

        By default the lock's own timeout applies, which by default is none.
        """
        timeout = self.timeout if timeout is None else timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.any_filesystem:
            refuse_unknown_filesystem(self.lock_file)
        pauses = grow_pauses(LONGEST_PAUSE)
        while True:
            outcome = self._try()
            if outcome == "acquired":
                logger.debug("%s acquired", self)
                return
            left = float("inf") if deadline is None else deadline - time.monotonic()
            if left <= 0:
                record = self._look()
                owner = f"{record.name} pid {record.pid}" if record else None
                raise Timeout(f"Unable to acquire {self}", name=str(self.lock_file), owner=owner)
            # Asking the kernel about one of our locks costs nothing. A foreign holder must be
            # looked up in the process table.
            pause = self._options["retry_period"]
            time.sleep(min(left, pause if outcome == "foreign" else min(pause, next(pauses))))

    def release(self) -> None:
        with self._changing:
            file, self._held = self._held, None
            if file is None or self._pid != os.getpid():
                raise InvalidRelease(
                    f"Attempt at releasing {self} which we do not own", name=str(self.lock_file)
                )
            held_locks.discard(self)
            ours = self._remove(file)
        logger.debug("%s released", self)
        if not ours and self.lock_file.exists():
            raise InvalidRelease(
                f"{self} was removed and acquired by another process", name=str(self.lock_file)
            )

    def locked(self) -> bool:
        """Return True if any process holds the lock."""
        return self._look() is not None

    def getpid(self) -> int | None:
        """Return the id of the process that holds the lock."""
        record = self._look()
        return record.pid if record else None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _try(self) -> Literal["acquired", "held", "foreign"]:
        for _ in range(self._options["tries"]):
            with self._guard() as guarded:
                outcome = self._transition() if guarded else "held"
            if outcome != "unconfirmed":
                return outcome
            # A peer that also found the holder dead is writing its file.
            time.sleep(self._options["race_delay"])
            if self._confirm():
                return "acquired"
            record, _ = self._read()
            if record is not None:
                return "foreign"
        raise InvalidLockFile("Unable to obtain a valid lock file", name=str(self.lock_file))

    def _transition(self) -> Literal["acquired", "held", "foreign", "unconfirmed"]:
        """Under the guard: create the file, replace a dead holder's, or leave a live one's."""
        if self._held is not None and self._pid == os.getpid() and self._held.is_at_path():
            return "held"
        if self._create():
            return "acquired"
        record, status = self._read()
        if status is None:
            return "held"  # it has just disappeared; the next try comes at once
        is_ours = record is not None and record.lock_id is not None
        if record is not None and self._holder_lives(record, status):
            return "held" if is_ours else "foreign"
        self._replace()
        return "acquired" if is_ours else "unconfirmed"

    def _create(self) -> bool:
        """Link a file that is complete and locked, so that half a lock file is never visible."""
        if os.path.lexists(self.lock_file):
            return False
        file = self._new_file()
        try:
            os.link(file.path, self.lock_file)
        except FileExistsError:
            file.close()
            return False
        except OSError as error:
            file.close()
            raise LockBackendError(f"{self.lock_file} cannot be made: {error.strerror}") from error
        finally:
            file.path.unlink()
        self._take(file)
        return True

    def _replace(self) -> None:
        began = time.monotonic()
        file = self._new_file()
        file.path.replace(self.lock_file)
        self._take(file)
        took, delay = time.monotonic() - began, self._options["race_delay"]
        if took >= delay * 2 / 3:
            warnings.warn(
                f"Slow system detected: writing {self.lock_file} took {took:.2g} s. "
                f"Increase race_delay ({delay:.2g} s).",
                stacklevel=5,
            )

    def _new_file(self) -> OpenFile:
        try:
            fd, path = tempfile.mkstemp(
                prefix=f".{self.lock_file.name[:50]}.", dir=self.lock_file.parent
            )
        except OSError as error:
            raise LockBackendError(f"{self.lock_file} cannot be made: {error.strerror}") from error
        file = OpenFile(fd, Path(path))
        try:
            file.write(make_own_record(secrets.token_hex(16)).encode())
            file.lock(fcntl.LOCK_EX)
        except BaseException:
            file.close()
            file.path.unlink()
            raise
        return file

    def _take(self, file: OpenFile) -> None:
        file.path = self.lock_file
        self._held, self._pid = file, os.getpid()
        held_locks.add(self)

    def _confirm(self) -> bool:
        """Return True if our file is still in its place, else give up the lock."""
        file = self._held
        if file is not None and file.is_at_path():
            return True
        self._held = None
        held_locks.discard(self)
        if file is not None:
            file.close()
        return False

    def _look(self) -> LockFileRecord | None:
        """Return the record of the holder, or None."""
        if not os.path.lexists(self.lock_file):
            return None
        with self._guard():
            record, status = self._read()
            if record is None or status is None:
                return None
            return record if self._holder_lives(record, status) else None

    def _read(self) -> tuple[LockFileRecord | None, os.stat_result | None]:
        """Return the file's record, if valid, and its status, if it exists."""
        with suppress(FileNotFoundError), self._open() as file:
            return parse_record(os.pread(file.fd, LONGEST_RECORD, 0)), os.fstat(file.fd)
        return None, None

    def _holder_lives(self, record: LockFileRecord, status: os.stat_result) -> bool:
        if record.lock_id is None:
            return foreign_holder_lives(record, status.st_mtime)
        with suppress(FileNotFoundError), self._open() as file:
            return not file.lock(fcntl.LOCK_EX)
        return False

    def _open(self) -> closing[OpenFile]:
        return closing(open_lock_file(self.lock_file, create=False, write=False, any_owner=True))

    def _remove(self, file: OpenFile) -> bool:
        """Remove our file. Return False if it is a successor's, which stays."""
        # Continue even without the guard, if its holder was stopped: we hold the lock on our inode.
        with self._guard():
            ours = file.is_at_path()
            if ours:
                with suppress(FileNotFoundError):
                    self.lock_file.unlink()
        file.close()
        return ours

    @contextmanager
    def _guard(self) -> Iterator[bool]:
        path = self.lock_file.with_name(f".{self.lock_file.name}.guard")
        with closing(open_lock_file(path, any_owner=True)) as file:
            deadline = time.monotonic() + GUARD_PATIENCE
            pauses = grow_pauses(LONGEST_PAUSE)
            while not (locked := file.lock(fcntl.LOCK_EX)) and time.monotonic() < deadline:
                time.sleep(next(pauses))
            yield locked


@atexit.register
def _release_all() -> None:
    for lock in list(held_locks):
        with suppress(LockError, OSError):
            lock.release()


__version__ = "1.2.1"
