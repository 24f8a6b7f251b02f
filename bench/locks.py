"""What an uncontended acquire + release costs, beside redis-py's own lock in the same run.

    python bench/locks.py [seconds for each]

The rounds are interleaved, so that a machine that becomes slower meanwhile slows all of them; the median counts.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import redis

from inturn.locks import BasicLock, FileLock, KernelFileLock, Semaphore, SmartLock, TokenLock

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.locks.redis_server import binaries, server

ROUND = 200
REFERENCE = "redis-py Lock"


def main(seconds: float) -> None:
    for version, binary in binaries().items():
        with server(binary) as socket, tempfile.TemporaryDirectory() as folder, connected(socket) as client:
            report(version, measured(contenders(client, Path(folder)), seconds))


def connected(socket: str) -> "redis.Redis":
    return redis.Redis(unix_socket_path=socket)


def contenders(client: "redis.Redis", folder: Path) -> dict[str, Callable[[], object]]:
    return {
        REFERENCE: in_turn(client.lock("reference", timeout=30)),
        "TokenLock": in_turn(TokenLock(client, "token", timeout=30)),
        "SmartLock": in_turn(SmartLock(client, "smart")),
        "SmartLock portable": in_turn(SmartLock(client, "portable", portable=True)),
        "BasicLock": in_turn(BasicLock(client, "basic")),
        "Semaphore": in_turn(Semaphore(client, "semaphore", 3)),
        "KernelFileLock": in_turn(KernelFileLock(folder / "kernel.lock")),
        "FileLock": in_turn(FileLock(folder / "open.lock")),
    }


def in_turn(lock: object) -> Callable[[], object]:
    def once() -> None:
        with lock:  # type: ignore[attr-defined]
            pass

    return once


def measured(all_of_them: dict[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    rounds: dict[str, list[float]] = {name: [] for name in all_of_them}
    end = time.monotonic() + seconds * len(all_of_them)
    while time.monotonic() < end or not rounds[REFERENCE]:
        for name, once in all_of_them.items():
            began = time.perf_counter()
            for _ in range(ROUND):
                once()
            rounds[name].append((time.perf_counter() - began) / ROUND)
    return rounds


def report(version: str, rounds: dict[str, list[float]]) -> None:
    print(f"Redis {version}, a Unix socket, {len(rounds[REFERENCE])} rounds of {ROUND}")
    for name, costs in rounds.items():
        ratio = median(mine / reference for mine, reference in zip(costs, rounds[REFERENCE], strict=True))
        print(f"  {name:20} {median(costs) * 1e6:7.0f} us   {ratio:5.2f} x {REFERENCE}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0)
