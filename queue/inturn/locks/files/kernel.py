"""`flock` on a file that is never deleted: the default for new code on one machine.

Promises (a mutex). Held until it is released or its process ends, by whatever death; then free at once. A child of a
fork does not hold it. Shared holders exclude exclusive ones; `slots=N` lets N in. An exclusive lock counts its
acquisitions in the file, as a fence.

Never a blocking `flock`: tries with pauses of 1 to 50 ms. On a file system that is not known to keep such locks
for one machine's processes (a network's) it refuses, unless `any_filesystem=True`. If the file is removed by hand, the
next one to come cannot know of the holder; the holder's lease is lost within seconds.
"""

import fcntl
import json
import os
import random
import socket
import time
from functools import cache
from pathlib import Path
from typing import Any

from inturn.locks.core.base_lock import BaseLock, L
from inturn.locks.core.engine import Claim, Grant, Holder, Refusal, Renewal
from inturn.locks.core.lock import Lock
from inturn.locks.core.lock_async import AsyncLock
from inturn.locks.core.protocol import Steps
from inturn.locks.core.settings import OnTimeout, Terms
from inturn.locks.errors import LockBackendError
from inturn.locks.files.filesystem import refuse_unknown
from inturn.locks.files.open_file import Held, open_regular
from inturn.locks.files.ports import AsyncClockPort, ClockPort

RECORD_BYTES = 4096
DECODER = json.JSONDecoder()


class KernelClaim(Claim):
    def __init__(self, lock: "_Kernel[Any]", lock_id: str | None) -> None:
        super().__init__(lock.name, lock_id)
        self._lock = lock
        self._held: Held | None = None

    def take(self, patience: float) -> Steps[Grant | Refusal]:
        yield from ()
        paths = self._lock.paths
        if len(paths) > 1:
            paths = random.sample(paths, len(paths))
        for path in paths:
            held = open_regular(path, any_owner=self._lock.any_owner)
            # Whoever opened it before it was removed must not lock what nobody else can see.
            if held.lock(self._lock.kind) and held.is_at_path():
                try:
                    grant = self._granted(held)
                except BaseException:
                    held.close()  # whoever keeps the error would keep it locked
                    raise
                self._held = held
                return grant
            held.close()
        return Refusal(_holder(self.name, _read(paths[0])))

    def _granted(self, held: Held) -> Grant:
        owner, now = _owner(os.getpid()), time.time()
        if self._lock.kind == fcntl.LOCK_SH:
            return Grant(owner, None, now)
        fence = _record(held).get("fence", 0) + 1
        record = f'{{"fence": {fence}, "owner": {_quoted(owner)}, "lock_id": "{self.lock_id}", "acquired_at": {now}}}'
        # In one write, shorter than a block: readers see the old record or the new one.
        held.write(b"%-512b\n" % record.encode())
        return Grant(owner, fence if self._lock.slots == 1 else None, now)

    def drop(self) -> Steps[bool]:
        yield from ()
        held, self._held = self._held, None
        if held is None:
            return True
        still_there = held.is_at_path()
        held.close()
        return still_there

    def renew(self, ttl: float | None) -> Steps[Renewal]:
        return Renewal.RENEWED if (yield from self.owned()) else Renewal.GONE

    def owned(self) -> Steps[bool]:
        yield from ()
        return self._held is not None and self._held.is_at_path()


class _Kernel(BaseLock[L]):
    portable = False

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
        **terms: Any,
    ) -> None:
        if slots < 1 or (shared and slots > 1):
            raise ValueError(f"slots={slots}: at least 1, and 1 for a shared lock")
        self.path = Path(os.path.abspath(path))
        super().__init__(str(self.path), Terms(None, timeout, on_timeout, **terms))
        if not any_filesystem:
            refuse_unknown(self.path)
        self.kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self.slots = slots
        self.permits = slots if not shared else 2
        self.paths = [self.path, *(self.path.with_name(f"{self.path.name}.{n}") for n in range(1, slots))]
        self.any_owner = any_owner

    def claim(self, lock_id: str | None = None) -> Claim:
        return KernelClaim(self.settings(), lock_id)

    def look(self) -> Steps[Holder | None]:
        """Held, if an exclusive lock could not be had: on every slot."""
        yield from ()
        for path in self.paths:
            try:
                held = open_regular(path, create=False, any_owner=self.any_owner)
            except FileNotFoundError:
                return None
            # For a moment this locks, and whoever tries just then tries again some milliseconds later.
            free = held.lock(fcntl.LOCK_EX)
            held.close()
            if free:
                return None
        return _holder(self.name, _read(self.path))


class KernelFileLock(_Kernel[Any], Lock):
    """Mutex. Processes of one machine, by `flock` on a file that is never deleted."""

    def port(self) -> ClockPort:
        return ClockPort()


class AsyncKernelFileLock(_Kernel[Any], AsyncLock):
    """Mutex. The async twin of KernelFileLock."""

    def port(self) -> AsyncClockPort:
        return AsyncClockPort()


def _read(path: Path) -> dict[str, Any]:
    held = open_regular(path, write=False, any_owner=True)
    try:
        return _record(held)
    finally:
        held.close()


def _record(held: Held) -> dict[str, Any]:
    """What the last holder wrote; nothing, if there was none."""
    written = os.pread(held.fd, RECORD_BYTES, 0)
    if not written:
        return {}
    try:
        line = written.partition(b"\n")[0].decode()
        record, end = DECODER.raw_decode(line)
        if type(record["fence"]) is int and type(record["lock_id"]) is str and not line[end:].strip():
            return record  # type: ignore[no-any-return]
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise LockBackendError(f"{held.path} holds something else than a lock's record; it was not touched")


@cache
def _owner(pid: int) -> str:
    return f"{socket.gethostname()} pid {pid}"


@cache
def _quoted(text: str) -> str:
    return json.dumps(text)


def _holder(name: str, record: dict[str, Any]) -> Holder:
    acquired_at = record.get("acquired_at")
    age = time.time() - acquired_at if isinstance(acquired_at, float) else None
    return Holder(name, record.get("owner"), record.get("lock_id"), acquired_at, age, None, record.get("fence"))
