"""Print the table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.summary import Line


def show(lines: Sequence[Line], peers: Sequence[str], console: Console) -> None:
    table = Table(caption="ratios: how many times as good inturn is; above 1, inturn is better")
    table.add_column("")
    for peer in peers:
        table.add_column(peer, justify="right")
    table.add_column("× best peer", justify="right")
    table.add_column("× bare SQL", justify="right")
    if any(line.to_base for line in lines):
        table.add_column("× base", justify="right")
    for line in lines:
        texts = [line.texts.get(peer, "–") for peer in peers]
        base = [times(line.to_base)] if len(table.columns) == len(peers) + 4 else []
        table.add_row(
            f"{line.row.title}, {line.row.unit}", *texts, against(line), times(line.to_floor), *base
        )
    console.print(table)


def against(line: Line) -> str:
    return f"{times(line.to_best)} {line.best}" if line.to_best else "–"


def times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"
