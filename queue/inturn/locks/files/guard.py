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
import stat
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from inturn.locks.errors import LockBackendError
from inturn.locks.files.open_file import Held, open_regular

LOOK_INTERVAL = 60.0  # seconds; whoever tidies /tmp waits for days
SWEEP_INTERVAL = 3600.0
LEFT_FOR = 86_400.0  # seconds that a dead process's guard is kept as a proof
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
SWEPT = "swept"  # a file that is as old as the last sweep


class Guard:
    """Of one process; its `name` stands in the values of its locks. With the inode, or a copy of the file would prove something."""

    def __init__(self, folder: Path) -> None:
        self._held = open_regular(folder / secrets.token_hex(16))
        if not self._held.lock(fcntl.LOCK_EX):
            raise LockBackendError(f"{self._held.path} was locked by somebody else as it was made")
        self.name = f"{self._held.path.name}-{self._held.inode[1]}"
        # Where nobody else's file stands: the cheapest way to see that the descriptor is still that of this open file.
        self._position = os.lseek(self._held.fd, 1 + secrets.randbelow(2**31 - 1), os.SEEK_SET)
        self._look_at = time.monotonic() + LOOK_INTERVAL

    def is_good(self) -> bool:
        """Ours to keep locked, and still where others look for it; the look is what keeps it from being tidied away."""
        if not self._is_open():
            return False
        now = time.monotonic()
        if now >= self._look_at:
            if not self._held.is_at_path():
                return False
            self._look_at = now + LOOK_INTERVAL
            with suppress(OSError):  # we may be another user by now
                os.utime(self._held.fd)
        return True

    def _is_open(self) -> bool:
        """False if the descriptor was closed behind our back, and perhaps is another file's by now: never to be touched again."""
        try:
            if os.lseek(self._held.fd, 0, os.SEEK_CUR) == self._position:
                return True
        except OSError:
            pass
        self._held.fd = -1
        return False

    def remove(self) -> None:
        """It stays locked for as long as anything of us runs: somebody may be looking at it this moment."""
        with suppress(OSError):
            self._held.path.unlink()


_guards: list[Guard] = []  # the last is in use; one that was tidied away stays locked for the locks that name it
_vouched: set[str] = set()  # lock_ids that may stand in a store
_making = threading.RLock()


def vouch_for(lock_id: str) -> str:
    """The guard to name in the value of this lock, which is held from now on for all we know."""
    _vouched.add(lock_id)
    if not _guards or not _guards[-1].is_good():
        _make(known=len(_guards))
    return _guards[-1].name


def given_back(lock_id: str) -> None:
    _vouched.discard(lock_id)


def keep_young() -> None:
    """For as long as locks name it; a new one would be of no use to them."""
    for guard in _guards[-1:]:
        guard.is_good()


def _make(known: int) -> None:
    with _making:
        if len(_guards) == known:  # no other thread was faster
            folder = _folder()
            with suppress(OSError, LockBackendError):
                _sweep(folder)
            _guards.append(Guard(folder))


def is_dead(guard: str) -> bool:
    """Proven dead. What was read from a lock's value is believed to be a name only if it looks like one."""
    if not re.fullmatch("[0-9a-f]{32}-[0-9]{1,20}", guard):
        return False
    file, _, inode = guard.partition("-")
    folder = Path(tempfile.gettempdir(), _folder_name())
    try:
        if not _is_ours(folder.lstat()):
            return False
    except OSError:
        return False
    held = _free(folder / file)
    if held is None:
        return False
    held.close()
    return held.inode[1] == int(inode)


def _free(path: Path) -> Held | None:
    """The guard of a dead process; shared with whoever looks at the same moment."""
    with suppress(FileNotFoundError, LockBackendError):
        held = open_regular(path, create=False)
        if held.lock(fcntl.LOCK_SH):
            return held
        held.close()
    return None


def _sweep(folder: Path) -> None:
    """Remove what crashed processes left behind long ago; seldom, since there may be many that did not."""
    with suppress(FileNotFoundError):
        if time.time() - (folder / SWEPT).stat().st_mtime < SWEEP_INTERVAL:
            return
    (folder / SWEPT).touch(0o600)
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process has ended, or sweeps
            if path.name != SWEPT and time.time() - path.lstat().st_mtime > LEFT_FOR and (held := _free(path)):
                path.unlink()
                held.close()


@cache
def boot_id() -> str | None:
    """None: it is hidden from us."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None


def _folder() -> Path:
    folder = Path(tempfile.gettempdir(), _folder_name())
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError as error:
        raise LockBackendError(f"{folder} cannot be made: {error.strerror}; set TMPDIR") from error
    if not _is_ours(status):
        raise LockBackendError(f"{folder} is not a folder that only we may write to; remove it, or set TMPDIR")
    return folder


def _is_ours(status: os.stat_result) -> bool:
    """Whoever may write to it could put a file of ours in a guard's place."""
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & WRITABLE_BY_OTHERS


def _folder_name() -> str:
    return f"inturn-locks-{os.geteuid()}"


def _forget() -> None:
    global _making
    _guards.clear()
    _vouched.clear()
    _making = threading.RLock()


@atexit.register
def _remove() -> None:
    """A lock that may be held beyond our end needs them as the proof of that."""
    if not _vouched:
        for guard in _guards:
            guard.remove()


os.register_at_fork(after_in_child=_forget)
