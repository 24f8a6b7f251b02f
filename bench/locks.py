"""What an uncontended acquire + release costs, beside the least that can be done in the same run: redis-py's own lock, and
for files a bare open, flock and close.

    python bench/locks.py [seconds for each]

The rounds are interleaved, so that a machine that becomes slower meanwhile slows all of them; the median counts.
"""

import asyncio
import fcntl
import os
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

ROUND = 200
Group = dict[str, Callable[[], object]]  # by name, what does a round; the first is the reference


def main(seconds: float) -> None:
    for version, binary in binaries().items():
        with server(binary) as socket, redis.Redis(unix_socket_path=socket) as client:
            report(f"Redis {version}, a Unix socket", measured(on_redis(client), seconds))
        with server(binary) as socket, asyncio.Runner() as runner:
            report(f"Redis {version}, asyncio", measured(on_asyncio(runner, socket), seconds))
    with tempfile.TemporaryDirectory() as folder:
        report("files", measured(on_files(Path(folder)), seconds))


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

    def of(lock: Any) -> Callable[[], object]:
        async def a_round() -> None:
            for _ in range(ROUND):
                async with lock:
                    pass

        return lambda: runner.run(a_round())

    return {
        "redis-py Lock": of(client.lock("reference", timeout=30)),
        "AsyncTokenLock": of(AsyncTokenLock(client, "token", timeout=30)),
        "AsyncSmartLock": of(AsyncSmartLock(client, "smart")),
    }


def on_files(folder: Path) -> Group:
    def bare() -> None:
        for _ in range(ROUND):
            fd = os.open(folder / "bare.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(fd)

    return {
        "open, flock, close": bare,
        "KernelFileLock": in_turn(KernelFileLock(folder / "kernel.lock")),
        "FileLock": in_turn(FileLock(folder / "open.lock")),
    }


def in_turn(lock: Any) -> Callable[[], object]:
    def a_round() -> None:
        for _ in range(ROUND):
            with lock:
                pass

    return a_round


def measured(group: Group, seconds: float) -> dict[str, list[float]]:
    rounds: dict[str, list[float]] = {name: [] for name in group}
    end = time.monotonic() + seconds * len(group)
    while time.monotonic() < end:
        for name, a_round in group.items():
            began = time.perf_counter()
            a_round()
            rounds[name].append((time.perf_counter() - began) / ROUND)
    return rounds


def report(where: str, rounds: dict[str, list[float]]) -> None:
    reference, *_ = rounds
    print(f"{where}: {len(rounds[reference])} rounds of {ROUND}")
    for name, costs in rounds.items():
        ratio = median(mine / least for mine, least in zip(costs, rounds[reference], strict=True))
        print(f"  {name:20} {median(costs) * 1e6:7.0f} us  (best {min(costs) * 1e6:.0f})  {ratio:5.2f} x {reference}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0)
