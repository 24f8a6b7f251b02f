"""Measure the cost of acquiring and releasing a lock without contention.

    python bench/locks.py [seconds per lock] [locks per round]

Each run also measures a reference that does as little as possible: redis-py's own lock, and for
files a bare open, flock and close. The rounds are short and in random order. So a machine that
slows down slows all locks, and no lock always follows the same other lock. The result is the
median.
"""

import asyncio
import fcntl
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import redis
import redis.asyncio

from inturn.locks import (
    AsyncSmartLock,
    AsyncTokenLock,
    BasicLock,
    FileLock,
    KernelFileLock,
    Semaphore,
    SmartLock,
    TokenLock,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.locks.redis_server import binaries, server

# Maps a name to a function that takes a lock that many times. The first entry is the reference.
Group = dict[str, Callable[[int], object]]


def main(seconds: float, row: int) -> None:
    for version, binary in binaries().items():
        with server(binary) as socket, redis.Redis(unix_socket_path=socket) as client:
            report(f"Redis {version}, a Unix socket", measure(on_redis(client), seconds, row))
        with server(binary) as socket, asyncio.Runner() as runner:
            report(f"Redis {version}, asyncio", measure(on_asyncio(runner, socket), seconds, row))
    with tempfile.TemporaryDirectory() as folder:
        report("files", measure(on_files(Path(folder)), seconds, row))


def on_redis(client: "redis.Redis") -> Group:
    return {
        "redis-py Lock": in_turn(client.lock("reference", timeout=30)),
        "TokenLock": in_turn(TokenLock(client, "token", timeout=30)),
        "SmartLock": in_turn(SmartLock(client, "smart")),
        "SmartLock portable": in_turn(SmartLock(client, "portable", portable=True)),
        "BasicLock": in_turn(BasicLock(client, "basic")),
        "Semaphore": in_turn(Semaphore(client, "semaphore", 3)),
    }


def on_asyncio(runner: "asyncio.Runner", socket: str) -> Group:
    client = redis.asyncio.Redis(unix_socket_path=socket)

    def of(lock: Any) -> Callable[[int], object]:
        async def a_round(row: int) -> None:
            for _ in range(row):
                async with lock:
                    pass

        return lambda row: runner.run(a_round(row))

    return {
        "redis-py Lock": of(client.lock("reference", timeout=30)),
        "AsyncTokenLock": of(AsyncTokenLock(client, "token", timeout=30)),
        "AsyncSmartLock": of(AsyncSmartLock(client, "smart")),
    }


def on_files(folder: Path) -> Group:
    def bare(row: int) -> None:
        for _ in range(row):
            fd = os.open(
                folder / "bare.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(fd)

    return {
        "open, flock, close": bare,
        "KernelFileLock": in_turn(KernelFileLock(folder / "kernel.lock")),
        "FileLock": in_turn(FileLock(folder / "open.lock")),
    }


def in_turn(lock: Any) -> Callable[[int], object]:
    def a_round(row: int) -> None:
        for _ in range(row):
            with lock:
                pass

    return a_round


def measure(group: Group, seconds: float, row: int) -> dict[str, list[float]]:
    rounds: dict[str, list[float]] = {name: [] for name in group}
    end = time.monotonic() + seconds * len(group)
    for a_round in group.values():
        a_round(row)  # warm up: open connections, load scripts, start threads
    while time.monotonic() < end:
        for name in random.sample(list(group), len(group)):
            began = time.perf_counter()
            group[name](row)
            rounds[name].append((time.perf_counter() - began) / row)
    return rounds


def report(where: str, rounds: dict[str, list[float]]) -> None:
    reference, *_ = rounds
    print(f"{where}: {len(rounds[reference])} rounds")
    for name, costs in rounds.items():
        ratio = median(mine / least for mine, least in zip(costs, rounds[reference], strict=True))
        microseconds = f"{median(costs) * 1e6:7.0f} us  (best {min(costs) * 1e6:.0f})"
        print(f"  {name:20} {microseconds}  {ratio:5.2f} x {reference}")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(float(given[0]) if given else 3.0, int(given[1]) if given[1:] else 20)
