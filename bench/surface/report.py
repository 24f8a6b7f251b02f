"""Write the results: all readings as JSON, the tables as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from bench.peers.registry import OURS
from bench.report import RESULTS, About
from bench.surface.reading import COLD, WARM, Failure
from bench.surface.run import Result
from bench.surface.shapes import IN_A_CALL, Shape
from bench.surface.summary import QUANTITIES, Cell, Cells, Line, lines, misses

HEAD = (
    *("shape", "jobs", "jobs/s", "spread", "server µs", "worker µs", "calls"),
    *("× free: server", "worker", "wall"),
    *("× the fastest", "× the fastest right"),
)
EXPLANATION = """\
* `1000x10` is 1,000 lanes with ten jobs each, `free20000` is 20,000 free jobs.
  Suffixes: `4w` four workers, `8q` eight queues, `8p` eight priorities.
* `never` and `full`: the tables were never analysed, or when they were full.
  Otherwise they were vacuumed and analysed when they were empty.
* Costs are per job. `× free` divides them by those of as many free jobs in the same round.
  WAL includes enqueueing, and with `full` the vacuum.
* The spread is the range of the rounds, as a share of their median.
* `× the fastest` is how many times as fast inturn is, in the same round.
  The peer's name has a `*` if it was cut off, and WRONG if a lane's jobs ran out of order,
  overlapped, or ran twice."""


def write(
    name: str, about: About, results: Sequence[Result], found: Cells, shapes: Sequence[Shape]
) -> str:
    """Write both files and return the Markdown."""
    RESULTS.mkdir(exist_ok=True)
    text = markdown(about, results, found, shapes)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    (RESULTS / f"{name}.json").write_text(_json(about, results), encoding="utf-8")
    return text


def markdown(about: About, results: Sequence[Result], found: Cells, shapes: Sequence[Shape]) -> str:
    parts = [f"{about}.", EXPLANATION]
    missed: list[str] = []
    for state in (COLD, WARM):
        mine = lines(found, shapes, state)
        if mine:
            parts += [f"## {state.capitalize()} workers", _table(HEAD, map(_cells_of, mine))]
            missed += [text for line in mine for text in misses(line)]
    if matrix := _matrix(found, shapes):
        parts += ["## Cost by lanes and depth", matrix]
    parts += ["## Missed", _bullets(missed) or "Nothing."]
    peers = list(about.peers)
    head = "jobs/s (µs of server + worker, WAL bytes, spread)"
    parts += ["## Everybody", _everybody(found, shapes, peers, head, _short)]
    head = f"jobs/s enqueued, in calls of {IN_A_CALL:,}"
    parts += ["## Enqueueing", _everybody(found, shapes, peers, head, _enqueued)]
    failures = {f"{r.shape}, {r.peer}: {r.why}" for r in results if isinstance(r, Failure)}
    versions = [f"{peer} {version}" for peer, version in about.peers.items()]
    absent = [f"missing: {peer}, {why}" for peer, why in about.absent.items()]
    parts += [_bullets(sorted(failures)), _bullets(versions + absent)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cells_of(line: Line) -> list[str]:
    ours = line.ours
    return [
        str(line.shape),
        f"{line.shape.jobs:,}",
        f"{ours.of('rate'):,.0f}{ours.mark}",
        f"{ours.spread:.0%}",
        f"{ours.of('server'):.1f}",
        f"{ours.of('worker'):.1f}",
        f"{ours.of('calls'):.3f}",
        *(f"{line.free[name]:.2f}" if line.free else "–" for name in ("server", "worker", "wall")),
        str(line.fastest or "–"),
        str(line.right or "–"),
    ]


def _matrix(found: Cells, shapes: Sequence[Shape]) -> str:
    """Return what a job costs inturn by lanes and depth, so that growth can be seen."""
    plain = [shape for shape in shapes if shape.lanes and shape.is_plain and shape.workers == 1]
    costs = {
        (one.lanes, one.depth): _cost(found[one, COLD][OURS])
        for one in plain
        if OURS in found.get((one, COLD), {})
    }
    depths = sorted({depth for _, depth in costs})
    rows = [
        [f"{lanes:,}", *(costs.get((lanes, depth), "") for depth in depths)]
        for lanes in sorted({lanes for lanes, _ in costs})
    ]
    head = ["lanes; µs of server + worker, cold", *(f"{depth:,} deep" for depth in depths)]
    return _table(head, rows) if rows else ""


def _cost(cell: Cell) -> str:
    return f"{cell.of('server'):,.0f} + {cell.of('worker'):,.0f}"


def _everybody(
    found: Cells,
    shapes: Sequence[Shape],
    peers: Sequence[str],
    head: str,
    text: Callable[[Cell], str],
) -> str:
    rows = [
        [f"{shape} {state}", *(text(cells[peer]) if peer in cells else "–" for peer in peers)]
        for state in (COLD, WARM)
        for shape in shapes
        if (cells := found.get((shape, state)))
    ]
    return _table([head, *peers], rows)


def _short(cell: Cell) -> str:
    spread = f", {cell.spread:.0%}" if len(cell.readings) > 1 else ""
    wal = f", {cell.of('wal'):,.0f}" if cell.done else ""  # of jobs that were not run yet, too
    return f"{cell.of('rate'):,.0f}{cell.mark} ({_cost(cell)}{wal}{spread})"


def _enqueued(cell: Cell) -> str:
    return f"{cell.of('enqueue'):,.0f}"


def _table(head: Sequence[str], rows: Any) -> str:
    every = [list(head), ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in every)


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"* {text}" for text in texts)


def _json(about: About, results: Sequence[Result]) -> str:
    facts = {
        "machine": about.machine,
        "postgres": about.postgres,
        "rounds": about.rounds,
        "peers": about.peers,
    }
    rows = ",\n  ".join(json.dumps(_row(result)) for result in results)
    return f'{{"about": {json.dumps(facts)},\n "readings": [\n  {rows}\n]}}\n'


def _row(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {
        "round": result.round,
        "peer": result.peer,
        "shape": str(result.shape),
    }
    if isinstance(result, Failure):
        return row | {"why": result.why}
    costs = {name: round(quantity(result), 4) for name, quantity in QUANTITIES.items()}
    counts = {"ran": result.ran, "done": result.done, "first": round(result.first, 4)}
    return row | {"state": result.state} | counts | result.verdict._asdict() | costs
