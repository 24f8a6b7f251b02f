"""A drop-in for the library `openlock`: the same names, the same lock file, without its defects.

Promises (a mutex). A marker file says who holds the lock; while it is held, its inode is locked too, so that the end of
the holder, however it came, is known at once and for certain. Transitions are made under a short lock on a file beside
it (`.name.guard`, never deleted), so that of several who find a dead holder one takes over.
With processes that use `openlock` itself, in both directions: theirs is respected and ours by them, as far as they can
see us in their process table; only for what they left behind is `race_delay` paid. Removing the file by hand
frees the lock.

It does not promise exclusion against a peer that judges our file wrongly, nor on file systems of a network.
"""

import atexit
import fcntl
import logging
import os
import secrets
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from inturn.locks.compat.lockfile import Record, foreign_holder_lives, own_record, parsed
from inturn.locks.compat.openlock_options import (
    Defaults,
    InvalidLockFile,
    InvalidOption,
    InvalidRelease,
    OpenLockException,
    Timeout,
    get_defaults,
    set_defaults,
)
from inturn.locks.core.engine import LONGEST_PAUSE, growing
from inturn.locks.errors import LockBackendError, LockError
from inturn.locks.files.filesystem import refuse_unknown
from inturn.locks.files.open_file import Held, open_regular

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
GUARD_PATIENCE = 5.0  # seconds; a guard is held for some milliseconds, unless its holder was stopped
LONGEST_RECORD = 65536


class FileLock:
    """Mutex. A drop-in for the one of `openlock`, on the same lock file."""

    any_filesystem = False  # to be set where `flock` is known to work though the file system is not

    def __init__(self, lock_file: str | os.PathLike[str] = "openlock.lock", timeout: float | None = None) -> None:
        self.lock_file = Path(lock_file)
        self.timeout = timeout
        self._options = get_defaults()
        self._held: Held | None = None
        self._pid = 0
        self._changing = threading.Lock()  # never held while waiting
        logger.debug("%s created", self)

    def __str__(self) -> str:
        return f"FileLock('{self.lock_file}')"

    __repr__ = __str__

    def acquire(self, timeout: float | None = None) -> None:
        """Wait so many seconds (0: try once), then raise Timeout; by default those of the lock, by default for ever."""
        timeout = self.timeout if timeout is None else timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.any_filesystem:
            refuse_unknown(self.lock_file)
        pauses = growing(LONGEST_PAUSE)
        while True:
            outcome = self._try()
            if outcome == "acquired":
                logger.debug("%s acquired", self)
                return
            left = float("inf") if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise Timeout(f"Unable to acquire {self}", name=str(self.lock_file), owner=_shown(self._look()))
            # Of our own kind we can ask the kernel, which costs nothing; others are looked up in the process table.
            pause = self._options["retry_period"]
            time.sleep(min(left, pause if outcome == "foreign" else min(pause, next(pauses))))

    def release(self) -> None:
        with self._changing:
            held, self._held = self._held, None
            if held is None or self._pid != os.getpid():
                raise InvalidRelease(f"Attempt at releasing {self} which we do not own", name=str(self.lock_file))
            _holding.discard(self)
            ours = self._remove(held)
        logger.debug("%s released", self)
        if not ours and self.lock_file.exists():
            raise InvalidRelease(f"{self} was removed and acquired by somebody else", name=str(self.lock_file))

    def locked(self) -> bool:
        """By any process."""
        return self._look() is not None

    def getpid(self) -> int | None:
        """Of the process that holds it."""
        record = self._look()
        return record.pid if record else None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _try(self) -> Literal["acquired", "held", "foreign"]:
        for _ in range(self._options["tries"]):
            with self._guard(GUARD_PATIENCE) as guarded:
                outcome = self._transition() if guarded else "held"
            if outcome != "unconfirmed":
                return outcome
            time.sleep(self._options["race_delay"])  # a peer that judged at the same time writes its file meanwhile
            if self._confirmed():
                return "acquired"
            record, _ = self._read()
            if record is not None:
                return "foreign"
        raise InvalidLockFile("Unable to obtain a valid lock file", name=str(self.lock_file))

    def _transition(self) -> Literal["acquired", "held", "foreign", "unconfirmed"]:
        """One step under the guard: create, replace what is dead, or leave what lives."""
        if self._held is not None and self._pid == os.getpid() and self._held.is_at_path():
            return "held"
        if self._create():
            return "acquired"
        record, status = self._read()
        if status is None:
            return "held"  # gone this moment; tried again at once
        if record is not None and record.lock_id is not None:
            if self._inode_is_locked():
                return "held"
            self._replace()
            return "acquired"
        if record is not None and foreign_holder_lives(record, status.st_mtime):
            return "foreign"
        self._replace()
        return "unconfirmed"

    def _create(self) -> bool:
        """A link appears with its content, and locked, or not at all."""
        if os.path.lexists(self.lock_file):
            return False
        held = self._new_file()
        try:
            os.link(held.path, self.lock_file)
        except FileExistsError:
            held.close()
            return False
        except OSError as error:
            held.close()
            raise LockBackendError(f"{self.lock_file} cannot be made: {error.strerror}") from error
        finally:
            held.path.unlink()
        self._take(held)
        return True

    def _replace(self) -> None:
        began = time.monotonic()
        held = self._new_file()
        held.path.replace(self.lock_file)
        self._take(held)
        took, delay = time.monotonic() - began, self._options["race_delay"]
        if took >= delay * 2 / 3:
            warnings.warn(
                f"Slow system detected: writing {self.lock_file} took {took:.2g} s. Increase race_delay ({delay:.2g} s).",
                stacklevel=5,
            )

    def _new_file(self) -> Held:
        try:
            fd, path = tempfile.mkstemp(prefix=f".{self.lock_file.name[:50]}.", dir=self.lock_file.parent)
        except OSError as error:
            raise LockBackendError(f"{self.lock_file} cannot be made: {error.strerror}") from error
        held = Held(fd, Path(path))
        try:
            held.write(own_record(secrets.token_hex(16)).text())
            held.lock(fcntl.LOCK_EX)
        except BaseException:
            held.close()
            held.path.unlink()
            raise
        return held

    def _take(self, held: Held) -> None:
        held.path = self.lock_file
        self._held, self._pid = held, os.getpid()
        _holding.add(self)

    def _confirmed(self) -> bool:
        held = self._held
        if held is not None and held.is_at_path():
            return True
        self._held = None
        _holding.discard(self)
        if held is not None:
            held.close()
        return False

    def _look(self) -> Record | None:
        """The record of whoever holds it."""
        if not os.path.lexists(self.lock_file):
            return None
        with self._guard(GUARD_PATIENCE):
            record, status = self._read()
            if record is None or status is None:
                return None
            lives = self._inode_is_locked() if record.lock_id else foreign_holder_lives(record, status.st_mtime)
        return record if lives else None

    def _read(self) -> tuple[Record | None, os.stat_result | None]:
        """What the file says, if anything valid, and its status, if it is there."""
        try:
            held = open_regular(self.lock_file, create=False, write=False, any_owner=True)
        except FileNotFoundError:
            return None, None
        try:
            return parsed(os.pread(held.fd, LONGEST_RECORD, 0)), os.fstat(held.fd)
        finally:
            held.close()

    def _inode_is_locked(self) -> bool:
        try:
            held = open_regular(self.lock_file, create=False, write=False, any_owner=True)
        except FileNotFoundError:
            return False
        try:
            return not held.lock(fcntl.LOCK_EX)
        finally:
            held.close()

    def _remove(self, held: Held) -> bool:
        """False if the file is not ours any more: then a successor's stays."""
        with self._guard(GUARD_PATIENCE):  # without it too, if its holder is stopped: our inode's lock excludes others
            ours = held.is_at_path()
            if ours:
                with suppress(FileNotFoundError):
                    self.lock_file.unlink()
        held.close()
        return ours

    @contextmanager
    def _guard(self, patience: float) -> Iterator[bool]:
        path = self.lock_file.with_name(f".{self.lock_file.name}.guard")
        held = open_regular(path, any_owner=True)
        deadline = time.monotonic() + patience
        try:
            pauses = growing(LONGEST_PAUSE)
            while not (locked := held.lock(fcntl.LOCK_EX)) and time.monotonic() < deadline:
                time.sleep(next(pauses))
            yield locked
        finally:
            held.close()


_holding: set[FileLock] = set()  # also while nobody refers to them


@atexit.register
def _release_all() -> None:
    """Ours, and not those of the process that we were forked from."""
    for lock in list(_holding):
        with suppress(LockError, OSError):
            lock.release()


def _shown(record: Record | None) -> str | None:
    return f"{record.name} pid {record.pid}" if record else None


__version__ = "1.2.1"
