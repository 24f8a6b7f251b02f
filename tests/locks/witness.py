"""The overlap witness: processes that take a lock again and again, and watch for each other.

A process that holds the lock makes a file that must not exist yet (O_EXCL), and removes it before
it releases. It also logs when it entered and left, by the clock that all processes of a machine
share, and what became of its late write: a resource with a fence refuses every number that is
smaller than one it has seen. Meanwhile a tormentor kills holders, and stops them for longer than a
lease lives. At the end a judge reads the logs.
"""

import fcntl
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inturn import locks

MUTEX, LEASE = "mutex", "lease"
CONTRACT = {
    "kernel": MUTEX,
    "openlock": MUTEX,
    "pg session": MUTEX,
    "pg table": LEASE,
    "smart": LEASE,
    "smart portable": LEASE,
    "semaphore": LEASE,
}
TTL = 0.8  # seconds
PAUSE = 1.6  # seconds for which a holder is stopped
ENOUGH = 20  # visits at least
PATIENCE = 30.0  # seconds that a busy machine may take for them
TICK = TTL / 8  # seconds after which each process looks if the machine has stopped it
STEP = 0.15  # seconds between two acts of the tormentor
GAP = 0.5  # seconds that a busy machine needs to wake a process, or to notice its death


@dataclass
class Visit:
    """One time that one process held the lock."""

    pid: int
    entered: float
    fence: int | None
    found: int | None = None  # the process whose file was there
    wrote: float = 0.0  # when the resource accepted its first write
    left: float | None = None
    # When the resource took its last write. None means never, or that it refused it.
    wrote_late: float | None = None


@dataclass
class Run:
    """What happened, and what was wrong with it."""

    visits: list[Visit] = field(default_factory=list)
    kills: dict[int, float] = field(default_factory=dict)
    pauses: list[tuple[int, float, float]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def make(kind: str, where: str) -> Any:
    if kind == "kernel":
        return locks.KernelFileLock(where)
    if kind == "openlock":
        return locks.FileLock(where)
    if kind == "pg session":
        return locks.PgLock(where, "it")
    if kind == "pg table":
        return locks.PgLock(where, "it", mode="table", ttl=TTL)
    import redis

    client = redis.Redis(unix_socket_path=where)
    if kind == "semaphore":
        return locks.Semaphore(client, "it", 1, ttl=TTL)
    portable = kind == "smart portable"
    return locks.SmartLock(client, "it", ttl=TTL, host="host", portable=portable)


def live(kind: str, where: str, folder: Path) -> None:
    """Take the lock again and again, until the process is killed."""
    lock = make(kind, where)
    log = os.open(folder / f"{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    dice = random.Random(os.getpid())

    def note(**facts: Any) -> None:
        os.write(log, json.dumps(facts).encode() + b"\n")  # a whole line, or nothing

    def tick() -> None:
        while True:
            began = time.monotonic()
            time.sleep(TICK)
            if time.monotonic() - began > TTL / 2:
                note(stood=[began, time.monotonic()])

    threading.Thread(target=tick, daemon=True).start()
    while True:
        lease = lock.acquire()
        fence = lease.fence if lease is not None and CONTRACT[kind] == LEASE else None
        entered = time.monotonic()
        found = enter(folder / "inside")
        note(
            entered=entered,
            fence=fence,
            found=found,
            wrote=write(folder / "resource", fence) or 0.0,
        )
        time.sleep(dice.uniform(0, 0.02))  # the work
        wrote_late = write(folder / "resource", fence)
        leave(folder / "inside")
        note(left=time.monotonic(), wrote_late=wrote_late)
        with suppress(locks.LockLost):
            (lease or lock).release()


def enter(path: Path) -> int | None:
    """Return the process whose file was there already, if any, and put ours in its place."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        found = None
    except FileExistsError:
        with suppress(FileNotFoundError, ValueError):
            found = int(path.read_text())
            path.write_text(str(os.getpid()))
            return found
        return None
    os.write(fd, str(os.getpid()).encode())
    os.close(fd)
    return found


def leave(path: Path) -> None:
    with suppress(FileNotFoundError, ValueError):
        if int(path.read_text()) == os.getpid():
            path.unlink()


def write(path: Path, fence: int | None) -> float | None:
    """Return when the resource accepted the write, or None if it refused the fence."""
    if fence is None:
        return time.monotonic()
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if fence < int(os.pread(fd, 20, 0) or 0):
            return None
        os.pwrite(fd, b"%020d" % fence, 0)
        return time.monotonic()  # while nobody else can write
    finally:
        os.close(fd)


def torment(kind: str, where: str, folder: Path, processes: int, seconds: float) -> Run:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.locks.witness"])
    run, dice = Run(), random.Random(f"{kind} {seconds}")

    def start() -> Any:
        process = context.Process(target=live, args=(kind, where, folder), daemon=True)
        process.start()
        return process

    crowd = [start() for _ in range(processes)]
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end or (
            _entries(folder) < ENOUGH and time.monotonic() < end + PATIENCE
        ):
            time.sleep(STEP)
            victim = _holder(folder) if dice.random() < 0.8 else dice.choice(crowd).pid
            process = next((one for one in crowd if one.pid == victim), None)
            if process is None:
                continue
            if dice.random() < 0.4:
                crowd[crowd.index(process)] = _replaced(process, start, run)
            else:
                _stop(process.pid, run)
    finally:
        for process in crowd:
            run.kills[process.pid] = time.monotonic()
            process.kill()
        for process in crowd:
            process.join()
    run.visits = sorted(_visits(folder, run), key=lambda visit: visit.entered)
    judge(CONTRACT[kind], run)
    return run


def _entries(folder: Path) -> int:
    return sum(log.read_bytes().count(b"entered") for log in folder.glob("*.log"))


def _holder(folder: Path) -> int | None:
    with suppress(FileNotFoundError, ValueError):
        return int((folder / "inside").read_text())
    return None


def _replaced(process: Any, start: Any, run: Run) -> Any:
    # Written before the kill, because a waiter can take over before we hear of the end.
    run.kills[process.pid] = time.monotonic()
    process.kill()
    process.join()
    run.seen["killed"] += 1
    return start()


def _stop(pid: int, run: Run) -> None:
    began = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSE)
    run.pauses.append((pid, began, time.monotonic()))
    os.kill(pid, signal.SIGCONT)
    run.seen["stopped"] += 1


def _visits(folder: Path, run: Run) -> Iterator[Visit]:
    for log in folder.glob("*.log"):
        pid, visit = int(log.stem), None
        for line in log.read_text().splitlines():
            facts = json.loads(line)
            if "stood" in facts:
                run.pauses.append((pid, *facts["stood"]))
            elif "entered" in facts:
                visit = Visit(pid, **facts)
                yield visit
            elif visit is not None:
                visit.left, visit.wrote_late = facts["left"], facts["wrote_late"]


def judge(contract: str, run: Run) -> None:
    for place, visit in enumerate(run.visits):
        run.seen["entered"] += 1
        if visit.found is not None and not _dead(visit.found, visit.entered, run):
            run.seen["found"] += 1
            if contract == MUTEX or not _paused(visit.found, visit.entered, visit.entered, run):
                run.wrong.append(f"{visit} found {visit.found} inside")
        for other in run.visits[place + 1 :]:
            if other.entered >= _end(visit, run):
                break
            run.seen["overlaps"] += 1
            _judge_overlap(contract, visit, other, run)


def _judge_overlap(contract: str, visit: Visit, other: Visit, run: Run) -> None:
    if contract == MUTEX:
        run.wrong.append(f"{visit} and {other} overlap")
        return
    # The smaller fence belongs to the one that lost its lease. It may have entered later.
    old, new = sorted((visit, other), key=lambda one: one.fence or 0)
    if not _paused(old.pid, new.entered, min(old.entered, new.entered), run):
        run.wrong.append(f"{old} was not stopped, and {new} entered")
    elif new.wrote and old.wrote_late is not None and old.wrote_late > new.wrote:
        run.wrong.append(f"{old} wrote after {new} and was not refused")


def _end(visit: Visit, run: Run) -> float:
    return visit.left if visit.left is not None else run.kills.get(visit.pid, float("inf"))


def _dead(pid: int, at: float, run: Run) -> bool:
    return run.kills.get(pid, float("inf")) <= at + GAP


def _paused(pid: int, entered: float, since: float, run: Run) -> bool:
    """Return True if it was stopped so long that its lease could end before the other entered."""
    return any(
        victim == pid and began + TTL / 2 <= entered and ended + GAP >= since
        for victim, began, ended in run.pauses
    )
