"""What a limit, a group, a chain, a batch and an expiry cost, as multiples of free jobs' costs."""

from __future__ import annotations

from collections.abc import Sequence

from bench.rows.flow import COSTS, FREE, Cost
from bench.rows.row import Scale
from bench.summary import Cells, ratio

HEAD = ("jobs", "", "enqueue", "drain", "server CPU", "worker CPU", "WAL", "SQL calls")
QUANTITIES = ("enqueue", "rate", "server", "worker", "wal", "calls")
CAPTION = (
    "Below 1, the jobs cost less than the same number of free jobs of the same queue in the same "
    "round, by as many workers.\n`enqueue` and `drain` are times, and WAL includes enqueueing."
)


def table(found: Cells, peers: Sequence[str], scale: Scale) -> str:
    """Return the Markdown table of the multiples, as medians of the rounds."""
    rows = [
        [one.row("rate").at(scale).title.removeprefix("drain "), peer, *multiples]
        for one in COSTS
        for peer in peers
        if any(multiples := [_multiple(one, name, found, peer) for name in QUANTITIES])
    ]
    every = [HEAD, ["---", "---", *["---:"] * len(QUANTITIES)], *rows]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in every)
    return f"## Costs against free jobs\n\n{CAPTION}\n\n{lines}" if rows else ""


def _multiple(one: Cost, quantity: str, found: Cells, peer: str) -> str:
    """Return the cost of a job that uses the tool, divided by that of a free job."""
    row, free = one.row(quantity), FREE[one.workers].row(quantity)
    if peer not in found.get(row.name, {}) or peer not in found.get(free.name, {}):
        return ""
    better = ratio(row, found[free.name][peer], found[row.name][peer])
    return "" if better is None else f"{better:.2f}"
