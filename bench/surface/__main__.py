"""`make bench-surface`, or `python -m bench.surface`: measure all shapes of lanes.

Shapes are named 1000x10 (1,000 lanes with ten jobs each) or free20000, with suffixes: 4w workers,
8q queues, 8p priorities, never or full (when the tables are analysed; otherwise when empty).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from bench import report as plain_report
from bench.peers import registry
from bench.peers.adapter import Peer
from bench.report import RESULTS, About
from bench.server import bed
from bench.surface import picture, report, shapes
from bench.surface.progress import Progress
from bench.surface.reading import COLD, WARM
from bench.surface.run import Patience, Result, run, steps
from bench.surface.summary import cells, lines

PEERS = (
    registry.OURS,
    *("graphile-worker", "pg-boss", "pgqueuer", "procrastinate", "chancy", "Awa"),
    registry.FLOOR,
)
QUICK_PEERS = PEERS[:5]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.surface",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, help="how often to run each shape [3, quick: 1]")
    parser.add_argument(
        "--only",
        default="",
        metavar="A,B",
        help=f"shapes, or these selections of shapes: {', '.join(shapes.SELECTIONS)}",
    )
    parser.add_argument("--peers", default="", metavar="A,B", help="measure these queues only")
    parser.add_argument("--cold", action="store_true", help="measure cold workers only")
    parser.add_argument(
        "--patience",
        type=float,
        default=Patience.ratio,
        help="cut a peer off after this multiple of what inturn took [%(default)g]",
    )
    parser.add_argument("--list", action="store_true", help="list the steps and measure nothing")
    parser.add_argument(
        "--quick", action="store_true", help="a few small shapes, too few to draw conclusions from"
    )
    return parser.parse_args()


def chosen_shapes(only: str, quick: bool) -> list[shapes.Shape]:
    names = [name for name in only.split(",") if name]
    try:
        return shapes.choose(names or (["quick"] if quick else list(shapes.DEFAULT)))
    except ValueError as error:
        sys.exit(f"{error}. Selections: {', '.join(shapes.SELECTIONS)}.")


def chosen_peers(given: str, quick: bool) -> list[Peer]:
    wanted = [name for name in given.split(",") if name] or (QUICK_PEERS if quick else PEERS)
    by_name = {peer.name: peer for peer in registry.all_peers()}
    if unknown := [name for name in wanted if name not in by_name]:
        sys.exit(f"Unknown queues: {', '.join(unknown)}. Known queues: {', '.join(by_name)}.")
    return [by_name[name] for name in wanted]


def main() -> None:
    given = arguments()
    rounds = given.rounds or (1 if given.quick else 3)
    chosen = chosen_shapes(given.only, given.quick)
    peers = chosen_peers(given.peers, given.quick)
    contestants = [peer for peer in peers if not peer.missing()]
    absent = [peer for peer in peers if peer.missing()]
    console, log = Console(width=220), Console(stderr=True)
    began = time.monotonic()
    results: list[Result] = []
    with bed() as server:
        planned = steps(server, contestants, chosen, rounds)
        if given.list:
            for step in planned:
                console.print(f"{step.round + 1} {step.shape} {step.peer}", highlight=False)
            return
        progress = Progress(planned, log)
        about = plain_report.about(server.version, rounds, 1, contestants, absent)
        name = "surface-quick" if given.quick else "surface"
        patience, warm = Patience(given.patience), not given.cold
        try:
            run(planned, patience, results, warm=warm, tell=progress.tell)
        finally:  # also when somebody stops it after hours
            console.print(_write(name, about, results, chosen), markup=False, highlight=False)
    seconds = time.monotonic() - began
    console.print(f"{seconds:.0f} s; bench/results/{name}.*", markup=False, highlight=False)


def _write(name: str, about: About, results: list[Result], chosen: Sequence[shapes.Shape]) -> str:
    """Write tables, readings and charts, and return the tables."""
    found = cells(results)
    for state, ending in ((COLD, ""), (WARM, "-warm")):
        caption = f"jobs per second, {state} workers; {about}"
        picture.draw(lines(found, chosen, state), RESULTS / f"{name}{ending}.svg", caption)
    return report.write(name, about, results, found, chosen)


if __name__ == "__main__":
    main()
