"""The lock file of `openlock`: its two lines, our third, and what they say about the holder.

Line 1 is the process id, line 2 a name from the command line. A third line of ours says that the file's own inode is
locked for as long as the lock is held: that, and not the process table, then proves life or death at once, whatever
the process is called, in whatever namespace its number counts. A file of two lines comes from another library, and its
holder is looked up in the process table.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

OURS = "inturn"
SLACK = 2.0  # seconds: start times and times of files are rounded


@dataclass(frozen=True, slots=True)
class Record:
    pid: int
    name: str
    lock_id: str | None  # of a lock file of ours

    def text(self) -> bytes:
        return f"{self.pid}\n{self.name}\n{OURS} {self.lock_id}\n".encode()


def parsed(text: bytes) -> Record | None:
    """None: it is no lock file."""
    lines = text.decode(errors="replace").splitlines()
    try:
        pid, name = int(lines[0]), lines[1].strip()
    except (ValueError, IndexError):
        return None
    words = lines[2].split() if len(lines) > 2 else []
    return Record(pid, name, words[1] if len(words) == 2 and words[0] == OURS else None)


def own_record(lock_id: str) -> Record:
    """The name is one that other libraries find when they look for it in our command line."""
    words = sys.argv[0].split() if sys.argv else []
    stem = Path(words[0]).stem if words else ""
    visible = " ".join(psutil.Process().cmdline()).lower()
    name = stem if stem.lower() in visible else Path(sys.executable).name
    return Record(os.getpid(), name, lock_id)


def foreign_holder_lives(record: Record, written_at: float) -> bool:
    """A Python process of that name, which already ran when the file was written."""
    try:
        process = psutil.Process(record.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.create_time() > written_at + SLACK:
            return False  # the number was given to another process since, or the machine was started anew
        words = process.cmdline()
        line = " ".join(words).lower()
        named = record.name.lower() in line or (record.name == "__main__" and "-m" in words)
        return named and ("python" in line or _runs_python(process))
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False
    except psutil.AccessDenied:
        return True  # it lives, and may be what it says


def _runs_python(process: psutil.Process) -> bool:
    """An interpreter under another name: by its program, or by the libraries that it has loaded."""
    try:
        if "python" in process.exe().lower():
            return True
        return any("python" in entry.path.lower() for entry in process.memory_maps(grouped=True))
    except psutil.AccessDenied:
        return True
