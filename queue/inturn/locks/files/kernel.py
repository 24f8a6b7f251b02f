"""`flock` on a file that is never deleted. The default for new code on one machine.

**Promises (a mutex).** It is held until it is released or its process ends in any way, and is then
free at once. A forked child does not hold it. Shared holders exclude exclusive ones, and `slots=N`
admits N. An exclusive lock counts its acquisitions in the file, as a fence.

**Limits.** It never blocks in `flock`, but retries after pauses of 1 to 50 ms. On a file system
where `flock` is not known to work between the processes of one machine, such as a network's, it
refuses to work unless you pass `any_filesystem=True`. If the file is removed, the next process
cannot know of the holder, whose lease is lost within seconds.
"""

import fcntl
import json
import os
import random
import socket
import time
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

from inturn.locks.core.base_lock import BaseLock, L
from inturn.locks.core.contender import Contender, Grant, Holder, Refusal
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.core.protocol import AsyncPort, Port, Steps
from inturn.locks.core.settings import LockSettings, OnTimeout
from inturn.locks.errors import LockBackendError
from inturn.locks.files.filesystem import refuse_unknown_filesystem
from inturn.locks.files.open_file import OpenFile, open_lock_file

RECORD_BYTES = 4096
DECODER = json.JSONDecoder()


class KernelContender(Contender):
    """A contender for one of the lock's files."""

    _lock: "_Kernel[Any]"
    _file: OpenFile | None = None

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        yield from ()
        paths = self._lock.paths
        if len(paths) > 1:
            paths = random.sample(paths, len(paths))
        for path in paths:
            file = open_lock_file(path, any_owner=self._lock.any_owner)
            # If the file was removed after we opened it, no one else could see our lock.
            if file.lock(self._lock.kind) and file.is_at_path():
                try:
                    grant = self._write_record(file)
                except BaseException:
                    file.close()  # otherwise a reference to the error would keep it locked
                    raise
                self._file = file
                return grant
            file.close()
        return Refusal(_find_holder(self.name, paths[0]))

    def _write_record(self, file: OpenFile) -> Grant:
        owner, now = _owner(os.getpid()), time.time()
        if self._lock.kind == fcntl.LOCK_SH:
            return Grant(owner, None, now)
        fence = _read_record(file).get("fence", 0) + 1
        record = (
            f'{{"fence": {fence}, "owner": {_quote(owner)}, '
            f'"lock_id": "{self.lock_id}", "acquired_at": {now}}}'
        )
        # A single write of less than a block, so that readers see the old or the new record.
        file.write(b"%-512b\n" % record.encode())
        return Grant(owner, fence if self._lock.slots == 1 else None, now)

    def drop(self) -> Steps[bool]:
        yield from ()
        file, self._file = self._file, None
        if file is None:
            return True
        still_there = file.is_at_path()
        file.close()
        return still_there

    def owned(self) -> Steps[bool]:
        yield from ()
        return self._file is not None and self._file.is_at_path()


class _Kernel(BaseLock[L]):
    portable = False
    contender = KernelContender

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        shared: bool = False,
        slots: int = 1,
        timeout: float | None = None,
        on_timeout: OnTimeout = "raise",
        any_filesystem: bool = False,
        any_owner: bool = False,
        **settings: Any,
    ) -> None:
        if slots < 1 or (shared and slots > 1):
            raise ValueError(f"slots={slots}: must be at least 1, and exactly 1 for a shared lock")
        self.path = Path(os.path.abspath(path))
        super().__init__(str(self.path), LockSettings(None, timeout, on_timeout, **settings))
        if not any_filesystem:
            refuse_unknown_filesystem(self.path)
        self.kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self.slots = slots
        self.permits = slots if not shared else 2
        others = (self.path.with_name(f"{self.path.name}.{n}") for n in range(1, slots))
        self.paths = [self.path, *others]
        self.any_owner = any_owner

    def look(self) -> Steps[Holder | None]:
        """Find out who holds it. It is held if no slot could be locked exclusively."""
        yield from ()
        for path in self.paths:
            try:
                file = open_lock_file(path, create=False, any_owner=self.any_owner)
            except FileNotFoundError:
                return None
            # This briefly locks the file. A contender that tries at that moment soon retries.
            free = file.lock(fcntl.LOCK_EX)
            file.close()
            if free:
                return None
        return _find_holder(self.name, self.path)


class KernelFileLock(_Kernel[Any], Lock):
    """Mutex. Between processes of one machine, by `flock` on a file that is never deleted."""

    def port(self) -> Port:
        return Port()


class AsyncKernelFileLock(_Kernel[Any], AsyncLock):
    """Mutex. The async twin of KernelFileLock."""

    def port(self) -> AsyncPort:
        return AsyncPort()


def _find_holder(name: str, path: Path) -> Holder:
    """Return the holder of a file that another process has locked."""
    with closing(open_lock_file(path, write=False, any_owner=True)) as file:
        if file.lock(fcntl.LOCK_SH):
            return Holder(name)  # shared holders leave no record
        record = _read_record(file)
    acquired_at = record.get("acquired_at")
    age = time.time() - acquired_at if isinstance(acquired_at, float) else None
    return Holder(
        name,
        record.get("owner"),
        record.get("lock_id"),
        acquired_at,
        age,
        None,
        record.get("fence"),
    )


def _read_record(file: OpenFile) -> dict[str, Any]:
    """Return the last holder's record, or an empty one if there was none."""
    text = os.pread(file.fd, RECORD_BYTES, 0)
    if not text:
        return {}
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        line = text.partition(b"\n")[0].decode()
        record: dict[str, Any]
        record, end = DECODER.raw_decode(line)
        if (
            type(record["fence"]) is int
            and type(record["lock_id"]) is str
            and not line[end:].strip()
        ):
            return record
    raise LockBackendError(
        f"{file.path} contains something other than a lock's record. It was not touched: remove "
        "it, or choose another path"
    )


@cache
def _owner(pid: int) -> str:
    return f"{socket.gethostname()} pid {pid}"


@cache
def _quote(text: str) -> str:
    return json.dumps(text)
