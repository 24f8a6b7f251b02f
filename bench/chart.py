"""Draw the chart: a panel per row, a bar per peer. Wrong or unfinished peers are hatched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.peers.registry import FLOOR, OURS
from bench.rows.row import Row
from bench.summary import Cell, Cells

COLUMNS = 3
OURS_COLOUR, PEER_COLOUR, FLOOR_COLOUR, INK = "#1f4e79", "#9db8d2", "#e3e3e3", "#333333"


def draw(rows: Sequence[Row], found: Cells, peers: Sequence[str], file: Path, caption: str) -> None:
    shown = [row for row in rows if any(cell.values for cell in found[row.name].values())]
    if not shown:
        return
    height = -(-len(shown) // COLUMNS)
    figure = Figure(
        figsize=(5.2 * COLUMNS, (0.7 + 0.26 * len(peers)) * height + 0.6), layout="constrained"
    )
    panels = figure.subplots(height, COLUMNS, squeeze=False).flat
    for axes, row in zip(panels, shown, strict=False):
        _panel(
            axes, row, {peer: found[row.name][peer] for peer in peers if peer in found[row.name]}
        )
    for axes in list(figure.axes)[len(shown) :]:
        axes.remove()
    figure.suptitle(caption, fontsize=9, color=INK)
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file)


def _panel(axes: Axes, row: Row, shown: dict[str, Cell]) -> None:
    names = list(shown)
    values = [median(shown[name].values) if shown[name].values else 0.0 for name in names]
    bars = axes.barh(
        names, values, color=[_colour(name) for name in names], edgecolor=INK, linewidth=0.3
    )
    for name, bar in zip(names, bars, strict=True):
        if not shown[name].competes:
            bar.set_hatch("////")
    axes.bar_label(
        bars, [shown[name].short(row) for name in names], padding=3, fontsize=7, color=INK
    )
    axes.set_title(
        f"{row.title} ({row.unit}{'' if row.more else ', lower is better'})", fontsize=8, loc="left"
    )
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.tick_params(axis="y", labelsize=7, length=0)
    axes.xaxis.set_visible(False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _colour(peer: str) -> str:
    if peer.startswith(OURS):
        return OURS_COLOUR
    return FLOOR_COLOUR if peer == FLOOR else PEER_COLOUR
