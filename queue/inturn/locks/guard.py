"""The kernel's proof that a process of this host is dead: a file of its own that only the living have locked.

A process makes its guard with its first smart lock, and names it in the value of each that it takes. A guard that is
found and can be locked proves the death of its process for good, since no name is used twice. A guard that is not found
(another user's, in a private /tmp, tidied away) proves nothing, so nothing is stolen there.
"""

import atexit
import fcntl
import os
import re
import secrets
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from inturn.locks.baselease import living
from inturn.locks.errors import LockBackendError
from inturn.locks.files import Held, open_regular

LOOK_INTERVAL = 60.0  # seconds; whoever tidies /tmp waits for days
LEFT_FOR = 86_400.0  # seconds that a dead process's guard is kept as a proof


class Guard:
    """Of one process; its `name` stands in the values of its locks."""

    def __init__(self, folder: Path) -> None:
        self.name = secrets.token_hex(16)
        self._held = open_regular(folder / self.name)
        self._held.lock(fcntl.LOCK_EX)
        self._look_at = time.monotonic() + LOOK_INTERVAL

    def is_found(self) -> bool:
        """Still where others look for it; the look is what keeps it from being tidied away."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_INTERVAL
            if not self._held.is_at_path():
                return False
            os.utime(self._held.fd)
        return True

    def remove(self) -> None:
        self._held.path.unlink(missing_ok=True)
        self._held.close()


_guards: list[Guard] = []  # the last is in use; one that was tidied away stays locked for the locks that name it
_making = threading.Lock()


def own_guard() -> str:
    if not _guards or not _guards[-1].is_found():
        _make(known=len(_guards))
    return _guards[-1].name


def _make(known: int) -> None:
    with _making:
        if len(_guards) == known:  # no other thread was faster
            folder = _folder(tempfile.gettempdir(), os.geteuid())
            _sweep(folder)
            _guards.append(Guard(folder))


def is_dead(guard: str) -> bool:
    """Proven dead. What was read from a lock's value is believed to be a name only if it looks like one."""
    if not re.fullmatch("[0-9a-f]{32}", guard):
        return False
    held = _free(_folder(tempfile.gettempdir(), os.geteuid()) / guard)
    if held is None:
        return False
    held.close()
    return True


def _free(path: Path) -> Held | None:
    """The guard of a dead process; shared with whoever looks at the same moment."""
    with suppress(FileNotFoundError, LockBackendError):
        held = open_regular(path, create=False)
        if held.lock(fcntl.LOCK_SH):
            return held
        held.close()
    return None


def _sweep(folder: Path) -> None:
    """Remove what crashed processes left behind long ago."""
    with os.scandir(folder) as entries:
        old = [entry for entry in entries if time.time() - entry.stat(follow_symlinks=False).st_mtime > LEFT_FOR]
    for entry in old:
        if held := _free(folder / entry.name):
            (folder / entry.name).unlink(missing_ok=True)
            held.close()


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


def _forget() -> None:
    global _making
    _guards.clear()
    _making = threading.Lock()


@atexit.register
def _remove() -> None:
    """A lock that is held beyond our end needs them as the proof of that."""
    if not any(lease.valid for lease in list(living.values())):
        for guard in _guards:
            guard.remove()


os.register_at_fork(after_in_child=_forget)
