"""Draw the surface: inturn, the fastest peer and the fastest that is right, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.chart import INK, OURS_COLOUR, PEER_COLOUR
from bench.surface.shapes import column_of
from bench.surface.summary import Line

WRONG_COLOUR = "#b5523b"
STYLES = (
    ("inturn", OURS_COLOUR, "o-", lambda line: line.ours),
    ("the fastest peer", WRONG_COLOUR, "x--", lambda line: line.fastest and line.fastest.cell),
    ("the fastest right peer", PEER_COLOUR, "s-", lambda line: line.right and line.right.cell),
)
Panel = tuple[int, int]  # the number of workers, the depth (0: free jobs)


def draw(lines: Sequence[Line], file: Path, caption: str) -> None:
    panels: dict[Panel, list[Line]] = {}
    for line in lines:
        if line.shape.is_plain:
            panels.setdefault((line.shape.workers, column_of(line.shape)), []).append(line)
    if not panels:
        return
    workers, depths = (sorted({panel[axis] for panel in panels}) for axis in (0, 1))
    figure = Figure(figsize=(3.6 * len(depths) + 1, 3.0 * len(workers) + 0.8), layout="constrained")
    grid = figure.subplots(len(workers), len(depths), squeeze=False, sharey=True)
    for row, count in enumerate(workers):
        for column, depth in enumerate(depths):
            if found := panels.get((count, depth)):
                _panel(grid[row][column], (count, depth), found)
            else:
                grid[row][column].remove()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.suptitle(caption, fontsize=9, color=INK)
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file)


def _panel(axes: Axes, panel: Panel, lines: list[Line]) -> None:
    count, depth = panel

    def size(line: Line) -> int:
        return line.shape.lanes if depth else line.shape.jobs

    shown = sorted(lines, key=size)
    for label, colour, style, cell_of in STYLES:
        points = [(size(line), cell) for line in shown if (cell := cell_of(line))]
        axes.plot(
            [x for x, _ in points],
            [cell.of("rate") for _, cell in points],
            style,
            color=colour,
            label=label,
            markersize=4,
        )
    jobs = f"{depth:,} job{'s' * (depth != 1)} in each lane" if depth else "free jobs"
    axes.set_title(f"{jobs}, {count} worker{'s' * (count > 1)}", fontsize=8, loc="left")
    axes.set_xlabel("lanes" if depth else "jobs", fontsize=7)
    axes.set_ylabel("jobs/s", fontsize=7)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.tick_params(which="both", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
