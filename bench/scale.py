"""`make bench-scale`, or `python -m bench.scale`: measure how throughput scales, and its limits.

It runs more and more worker processes and lanes. Jobs without work show the cost of the queue
itself, with workers and server sharing the cores of one machine. Jobs that wait for two
milliseconds show the cost of the hand-over: a lane runs one job at a time, so its ceiling is known,
and the hand-over takes the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.arena import Arena
from bench.jobs import Load
from bench.peers.registry import OURS, all_peers
from bench.server import bed

WORKERS = (1, 2, 4, 8)
LANES = (1, 4, 16, 64)
WAIT_MS = 2
LIMIT = 120.0


class Point(NamedTuple):
    title: str
    workers: int
    lanes: int
    rate: float  # jobs per second
    cores: float  # cores that the workers kept busy
    wrong: str

    @property
    def ceiling(self) -> float | None:
        return self.lanes * 1000 / WAIT_MS if self.lanes else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often to run everything [3]")
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the full number of jobs [1]"
    )
    given = parser.parse_args()
    log, points = Console(stderr=True), []
    peer = next(peer for peer in all_peers() if peer.name == OURS)
    with bed() as server:
        for number in range(given.rounds):
            for point in _round(Arena(server, peer), given.share):
                points.append(point)
                log.print(
                    f"{number + 1} {point.title:<28} {point.workers} workers "
                    f"{point.rate:>10,.0f} {point.wrong}"
                )
    _show(points)


def _round(arena: Arena, share: float) -> Iterator[Point]:
    for workers in WORKERS:
        yield _drain(arena, "free, no work", workers, 0, round(20_000 * share), 0)
    for workers in WORKERS:
        yield _drain(arena, "1,000 lanes, no work", workers, 1_000, round(10_000 * share), 0)
    for lanes in LANES:
        yield _drain(
            arena, f"{lanes} lanes, {WAIT_MS} ms", 2, lanes, round(lanes * 400 * share), WAIT_MS
        )


def _drain(arena: Arena, title: str, workers: int, lanes: int, count: int, ms: float) -> Point:
    with arena.fresh() as fresh:
        processes = fresh.workers(workers, Load(lanes))
        fresh.producer.bulk(count, lanes=lanes, calls=10 if lanes else 1, ms=ms)
        drained = fresh.drain(processes, count, LIMIT)
    return Point(
        title,
        workers,
        lanes if ms else 0,
        drained.rate,
        drained.cpu_seconds / drained.seconds,
        drained.note,
    )


def _show(points: list[Point]) -> None:
    table = Table(
        caption="medians; × compares with the first line of the same kind; "
        "the ceiling is the rate if a lane's jobs followed each other without a gap"
    )
    for name in ("", "workers", "jobs/s", "×", "of the ceiling", "cores busy with workers"):
        table.add_column(name, justify="left" if not name else "right")
    first: dict[str, float] = {}
    for title, workers in dict.fromkeys((point.title, point.workers) for point in points):
        mine = [point for point in points if (point.title, point.workers) == (title, workers)]
        rate = median(point.rate for point in mine)
        base = first.setdefault(
            (title.partition("lanes")[1] and title.rpartition(",")[2]) or title, rate
        )
        ceiling = mine[0].ceiling
        table.add_row(
            title + "".join(sorted({f" {point.wrong}" for point in mine if point.wrong})),
            str(workers),
            f"{rate:,.0f}",
            f"{rate / base:.2f}",
            f"{rate / ceiling:.2f}" if ceiling else "–",
            f"{median(point.cores for point in mine):.2f}",
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
