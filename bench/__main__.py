"""`make bench` and `make bench-flow`: measure the queues and print a table."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console

from bench import chart, overhead, report, rows, run, summary, table
from bench.arena import Moment
from bench.peers import registry
from bench.peers.adapter import Peer
from bench.pooler import pooler
from bench.rows.flow import ONLY_COSTS
from bench.rows.row import Scale, Scene
from bench.server import bed

QUICK = Scale(share=0.2, limit=15)
QUICK_ROWS = ("one", "bulk", "drain_free", "drain_lanes", "hot_lane")
QUICK_PEERS = (registry.OURS, registry.BASE, "graphile-worker", "pgqueuer", registry.FLOOR)
FLOW_PEERS = (
    *(registry.OURS, registry.BASE),
    *("graphile-worker", "pg-boss", "pgqueuer", "chancy"),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, help="how often each peer runs each row [3, quick: 1]"
    )
    parser.add_argument(
        "--only",
        "--rows",
        default="",
        metavar="A,B",
        help=f"run these rows only: {', '.join(rows.ROWS)}, and with --flow: "
        + ", ".join(name for name in rows.FLOW_ROWS if name not in ONLY_COSTS),
    )
    parser.add_argument(
        "--flow", action="store_true", help="measure limits, groups, chains, batches and expiry"
    )
    parser.add_argument(
        "--peers", default="", metavar="A,B", help="measure only queues whose names begin like this"
    )
    parser.add_argument(
        "--share", type=float, help="share of the full number of jobs [1, quick: 0.2]"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few rows, peers and jobs; too little to draw conclusions from",
    )
    parser.add_argument(
        "--analysed",
        choices=[moment.value for moment in Moment],
        default=Moment.EMPTY.value,
        help="when the tables are vacuumed and analysed [%(default)s]",
    )
    return parser.parse_args()


def chosen_scenes(only: str, quick: bool, flow: bool) -> list[Scene]:
    scenes, known = (rows.FLOW, rows.FLOW_ROWS) if flow else (rows.SCENES, rows.ROWS)
    default = QUICK_ROWS if quick and not flow else list(known)
    names = [name for name in only.split(",") if name] or default
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"Unknown rows: {', '.join(unknown)}. Known rows: {', '.join(known)}.")
    return [scene for scene in scenes if any(row.name in names for row in scene.rows)]


def chosen_peers(given: str, quick: bool, flow: bool) -> list[Peer]:
    wanted = [name for name in given.split(",") if name]
    if flow and not wanted:
        return [peer for peer in registry.all_peers() if peer.name in FLOW_PEERS]
    wanted = wanted or (list(QUICK_PEERS) if quick else [""])
    return [
        peer for peer in registry.all_peers() if any(_is_meant(peer.name, name) for name in wanted)
    ]


def _is_meant(peer: str, name: str) -> bool:
    """Return True if the peer's name begins like this. A variant that few need is named whole."""
    return peer == name or (peer.startswith(name) and peer != registry.UVLOOP)


def main() -> None:
    given = arguments()
    scale = QUICK if given.quick else Scale()
    scale = Scale(given.share or scale.share, scale.limit)
    rounds = given.rounds or (1 if given.quick else 3)
    console, log = Console(width=200), Console(stderr=True)
    chosen = chosen_peers(given.peers, given.quick, given.flow)
    contestants = [peer for peer in chosen if not peer.missing()]
    absent = [peer for peer in chosen if peer.missing()]
    scenes = chosen_scenes(given.only, given.quick, given.flow)
    began = time.monotonic()

    results: list[run.Measured] = []

    def tell(measured: run.Measured) -> None:
        results.append(measured)
        log.print(_describe(measured), highlight=False, soft_wrap=True)

    with bed() as server, pooler(server.dsn("postgres")):
        about = report.about(server.version, rounds, scale.share, contestants, absent)
        moment = Moment(given.analysed)
        try:
            run.measure(server, contestants, scenes, rounds, scale, moment, tell)
        finally:  # also when somebody stops it
            _show(about, results, scenes, _name(given.quick, given.flow), scale, console)
    console.print(f"{time.monotonic() - began:.0f} s", highlight=False)


def _name(quick: bool, flow: bool) -> str:
    if flow:
        return "flow-quick" if quick else "flow"
    return "quick" if quick else "latest"


def _show(
    about: report.About,
    results: list[run.Measured],
    scenes: list[Scene],
    name: str,
    scale: Scale,
    console: Console,
) -> None:
    every = (row.at(scale) for scene in scenes for row in scene.rows)
    chosen = [row for row in every if row.name not in ONLY_COSTS]
    found = summary.cells(results)
    lines = summary.lines(chosen, found)
    table.show(lines, list(about.peers), console)
    for note in (note for line in lines for note in line.notes):
        console.print(f"* {note}", highlight=False, soft_wrap=True)
    further = overhead.table(found, list(about.peers), scale)
    console.print(further, highlight=False, markup=False, soft_wrap=True)
    report.write(name, about, results, lines, further)
    if not further:
        chart.draw(chosen, found, list(about.peers), report.RESULTS / f"{name}.svg", str(about))
    for peer, why in about.absent.items():
        console.print(f"missing: {peer} ({why})")
    console.print(f"{about}; results in bench/results/{name}.*", highlight=False, soft_wrap=True)


def _describe(measured: run.Measured) -> str:
    result = (
        measured.why
        if measured.reading is None
        else f"{measured.reading.value:,.2f} {measured.reading.note}"
    )
    return f"{measured.round + 1}  {measured.row:<14} {measured.peer:<16} {result}"


if __name__ == "__main__":
    main()
