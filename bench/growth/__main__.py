"""`make bench-growth`, or `python -m bench.growth`: measure how costs grow with the tables."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from bench.growth import costs, picture
from bench.growth.costs import Queue
from bench.growth.point import CALLS, Point
from bench.growth.shapes import SHAPES, Shape
from bench.peers.registry import OURS, all_peers
from bench.processes import Process
from bench.report import RESULTS
from bench.server import Bed, bed

SIZES = tuple(10**power for power in range(3, 8))
DATABASE = "growth"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        metavar="A,B",
        help=f"run these shapes only: {', '.join(s.name for s in SHAPES)}",
    )
    parser.add_argument("--quick", action="store_true", help="stop at ten thousand jobs")
    parser.add_argument("--full", action="store_true", help="go up to ten million finished jobs")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    wanted = [name for name in given.only.split(",") if name]
    shapes = [shape for shape in SHAPES if not wanted or shape.name in wanted]
    log, points = Console(stderr=True), []
    with bed() as server:
        for shape in shapes:
            limit = 10**4 if given.quick else shape.full_limit if given.full else shape.limit
            for point in _grow(server, shape, [size for size in SIZES if size <= limit]):
                points.append(point)
                log.print(f"{point.size:>10,} {shape.title}", highlight=False)
        caption = (
            f"Cost per job in calls of {costs.BATCH} jobs, by the number of jobs in the tables; "
            f"PostgreSQL {server.version}"
        )
    _show(points, Console(width=160))
    name = "growth-quick" if given.quick else "growth"
    picture.draw(points, RESULTS / f"{name}.svg", caption)
    _write(points, RESULTS / f"{name}.json")


def _grow(server: Bed, shape: Shape, sizes: list[int]) -> Iterator[Point]:
    with _fresh(server) as connection_to, contextlib.closing(connection_to()) as connection:
        queue = Queue(connection)
        yield _point(shape, 0, queue)
        kept = shape.begin(queue, connection_to)
        grown = 0
        for size in sizes:
            shape.grow(queue, size - grown)
            grown = size
            if shape.vacuum:
                connection.execute("VACUUM ANALYZE")
            yield _point(shape, size, queue)
        del kept


def _point(shape: Shape, size: int, queue: Queue) -> Point:
    measured = costs.measure(
        lambda: queue.cycle_further() if shape.further else queue.cycle(shape.locks)
    )
    return Point(
        shape.name, size, {call: measured.median(call) for call in CALLS if call in measured.calls}
    )


@contextlib.contextmanager
def _fresh(server: Bed) -> Iterator[Callable[[], psycopg.Connection[Any]]]:
    server.drop(DATABASE)
    server.create(DATABASE)
    ours = next(peer for peer in all_peers() if peer.name == OURS)
    process = Process(ours, "install", server.dsn(DATABASE))
    try:
        if process.wait() != 0:
            raise process.failed("failed")
        yield lambda: server.observe(DATABASE)
    finally:
        process.kill()
        server.drop(DATABASE)


def _show(points: list[Point], console: Console) -> None:
    table = Table(
        caption="per job, in calls of 100 jobs; size 0 is a fresh table, and × compares with it"
    )
    for name in ("shape", "size"):
        table.add_column(name, justify="right")
    for call in CALLS:
        for name in ("pages", "×", "WAL", "µs"):
            table.add_column(f"{call} {name}" if name != "×" else name, justify="right")
    first: dict[str, Point] = {}
    for point in points:
        start = first.setdefault(point.shape, point)
        if start is point:
            table.add_section()
        table.add_row(
            point.shape,
            f"{point.size:,}",
            *(text for call in CALLS for text in _texts(point, start, call)),
        )
    console.print(table)


def _texts(point: Point, start: Point, call: str) -> tuple[str, str, str, str]:
    if call not in point.costs or call not in start.costs:
        return "–", "–", "–", "–"
    cost, base = point.costs[call], start.costs[call]
    return (
        f"{cost.pages:.1f}",
        f"{cost.pages / base.pages:.2f}",
        f"{cost.wal:,.0f}",
        f"{cost.ms * 1000:,.0f}",
    )


def _write(points: list[Point], file: Path) -> None:
    found = [
        {
            "shape": point.shape,
            "size": point.size,
            **{call: cost._asdict() for call, cost in point.costs.items()},
        }
        for point in points
    ]
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
