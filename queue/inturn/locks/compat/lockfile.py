"""The lock file of `openlock`: its two lines, our third one, and what they tell about the holder.

Line 1 is the process id. Line 2 is a name from the command line. Our third line means that the
file's own inode is locked while the lock is held. That lock, not the process table, then proves at
once whether the holder is alive, whatever its name and PID namespace.

A file with two lines comes from another library. Its holder is looked up in the process table.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

try:
    import psutil
except ModuleNotFoundError:
    from inturn.errors import MissingExtra

    raise MissingExtra("The lock file of openlock", "openlock") from None

OURS = "inturn"
SLACK = 2.0  # seconds: process start times and file times are rounded


@dataclass(frozen=True, slots=True)
class LockFileRecord:
    pid: int
    name: str
    lock_id: str | None  # only in a lock file of ours

    def encode(self) -> bytes:
        return f"{self.pid}\n{self.name}\n{OURS} {self.lock_id}\n".encode()


def parse_record(text: bytes) -> LockFileRecord | None:
    """Return the file's record, or None if it is not a lock file."""
    lines = text.decode(errors="replace").splitlines()
    try:
        pid, name = int(lines[0]), lines[1].strip()
    except (ValueError, IndexError):
        return None
    words = lines[2].split() if len(lines) > 2 else []
    is_ours = len(words) == 2 and words[0] == OURS
    return LockFileRecord(pid, name, words[1] if is_ours else None)


def make_own_record(lock_id: str) -> LockFileRecord:
    """Return a record with a name that other libraries find in our command line."""
    words = sys.argv[0].split() if sys.argv else []
    stem = Path(words[0]).stem if words else ""
    visible = " ".join(psutil.Process().cmdline()).lower()
    name = stem if stem.lower() in visible else Path(sys.executable).name
    return LockFileRecord(os.getpid(), name, lock_id)


def foreign_holder_lives(record: LockFileRecord, written_at: float) -> bool:
    """Return True if a Python process of that name already ran when the file was written."""
    try:
        process = psutil.Process(record.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.create_time() > written_at + SLACK:
            return False  # another process now has the number, or the machine was restarted
        words = process.cmdline()
        line = " ".join(words).lower()
        if record.name.lower() not in line and not (record.name == "__main__" and "-m" in words):
            return False
        # An interpreter with another name shows by its program or its loaded libraries.
        return (
            "python" in line
            or "python" in process.exe().lower()
            or any("python" in each.path.lower() for each in process.memory_maps(grouped=True))
        )
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False
    except psutil.AccessDenied:
        return True  # it is alive, and may be the one in the file
