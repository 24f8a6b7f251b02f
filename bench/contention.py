"""`make bench-contention`: see what workers wait for as one server gets more of them.

It runs 1 to 64 worker processes and looks at the sessions of the server every few milliseconds. A
session that does not wait runs, or wants to: with more of them than cores, the rate stays, and the
CPU of a job shows whether they get in each other's way. Locks, latches and spins show where more
cores would not help.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import psycopg
from rich.console import Console
from rich.table import Table

from bench.arena import Arena
from bench.jobs import FREE_JOBS, Load
from bench.peers.registry import OURS, all_peers
from bench.server import bed

WORKERS = (1, 2, 4, 8, 16, 32, 64)
SESSIONS_EACH = 6
LOADS = {"free": FREE_JOBS, "1,000 lanes": Load(1_000), "one lane": Load(1)}
COUNTS = {"free": 20_000, "1,000 lanes": 10_000, "one lane": 1_000}
PAUSE = 0.01
LIMIT = 120.0
SESSIONS = """
SELECT coalesce(wait_event_type || ' ' || wait_event, 'runs'), count(*) FROM pg_stat_activity
WHERE datname = current_database() AND usename <> current_user
    AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client'
GROUP BY 1
"""
WORK = """
SELECT xact_commit + xact_rollback, blks_hit + blks_read
FROM pg_stat_database WHERE datname = current_database()
"""


class Sampler:
    """Counts what the active sessions of a database do, until it is stopped."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.looks = 0
        self.seen = Counter[str]()
        self._connection = connection
        self._stopped = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _look(self) -> None:
        while not self._stopped.wait(PAUSE):
            self.seen.update(dict(self._connection.execute(SESSIONS).fetchall()))
            self.looks += 1


class Point(NamedTuple):
    load: str
    workers: int
    rate: float
    server_us: float  # of CPU, a job
    transactions: float  # a job
    pages: float  # a job
    sessions: dict[str, float]  # how many, on average, by what they do
    wrong: str


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.contention", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often to run everything [3]")
    parser.add_argument("--most", type=int, default=WORKERS[-1], help="most workers [64]")
    given = parser.parse_args()
    log, points = Console(stderr=True), []
    peer = next(peer for peer in all_peers() if peer.name == OURS)
    with bed(max_connections=str(50 + SESSIONS_EACH * given.most)) as server:
        for number in range(given.rounds):
            arena = Arena(server, peer)
            for load in LOADS:
                for workers in (each for each in WORKERS if each <= given.most):
                    points.append(_measure(arena, load, workers))
                    log.print(f"{number + 1} {load:<12} {workers:>2} {points[-1].rate:>8,.0f}/s")
    _show(points)


def _measure(arena: Arena, load: str, count: int) -> Point:
    jobs = COUNTS[load]
    with arena.fresh() as fresh, fresh.observe() as connection:
        workers = fresh.workers(count, LOADS[load])
        fresh.enqueue(jobs, LOADS[load], calls=10)
        sampler = Sampler(connection)
        before = _read_work(connection)
        with sampler.running():
            drained = fresh.drain(workers, jobs, LIMIT, settle=False)
        after = _read_work(connection)
    ran = max(1, len(drained.trace))
    return Point(
        load,
        count,
        drained.rate,
        drained.server_cpu_seconds * 1e6 / ran,
        (after[0] - before[0] - sampler.looks) / ran,
        (after[1] - before[1]) / ran,
        {what: times / max(1, sampler.looks) for what, times in sampler.seen.items()},
        drained.note,
    )


def _read_work(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    time.sleep(1.1)  # sessions report once a second
    connection.execute("SELECT pg_stat_force_next_flush()")
    [(transactions, pages)] = connection.execute(WORK).fetchall()
    return transactions, pages


def _show(points: list[Point]) -> None:
    table = Table(caption="medians; × compares with one worker; sessions are means of the looks")
    for name in ("", "workers", "jobs/s ×", "CPU a job ×", "transactions a job", "pages a job"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_column("sessions that run, and that wait")
    for load, workers in dict.fromkeys((point.load, point.workers) for point in points):
        mine = [point for point in points if (point.load, point.workers) == (load, workers)]
        first = [point for point in points if (point.load, point.workers) == (load, WORKERS[0])]
        wrong = "".join(sorted({f" {point.wrong}" for point in mine if point.wrong}))
        table.add_row(
            load + wrong,
            str(workers),
            f"{_ratio(mine, first, 'rate'):.2f}",
            f"{_ratio(mine, first, 'server_us'):.2f}",
            f"{median(point.transactions for point in mine):.2f}",
            f"{median(point.pages for point in mine):.0f}",
            _describe([point.sessions for point in mine]),
        )
    Console(width=170).print(table)


def _ratio(mine: list[Point], first: list[Point], name: str) -> float:
    return median(getattr(point, name) for point in mine) / median(
        getattr(point, name) for point in first
    )


def _describe(rounds: list[dict[str, float]]) -> str:
    """Return what at least a twentieth of a session did, on average, the most frequent first."""
    total = Counter[str]()
    for sessions in rounds:
        total.update(sessions)  # type: ignore[arg-type]
    means = [(what, times / len(rounds)) for what, times in total.most_common()]
    return ", ".join(f"{what} {mean:.2f}" for what, mean in means if mean >= 0.05)


if __name__ == "__main__":
    main()
