"""Draw the chart: cost by number of jobs in the tables, one line per shape. Flat is good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from bench.growth.point import CALLS, Point

MEASURES = (("pages", "pages touched per job"), ("wal", "WAL bytes per job"), ("ms", "ms per job"))


def draw(points: Sequence[Point], file: Path, caption: str) -> None:
    figure = Figure(figsize=(13, 9), layout="constrained")
    panels = figure.subplots(len(MEASURES), len(CALLS), squeeze=False)
    shapes = list(dict.fromkeys(point.shape for point in points))
    for line, (measure, title) in zip(panels, MEASURES, strict=True):
        for axes, call in zip(line, CALLS, strict=True):
            for shape in shapes:
                mine = [point for point in points if point.shape == shape and call in point.costs]
                axes.plot(
                    [p.size for p in mine],
                    [getattr(p.costs[call], measure) for p in mine],
                    marker="o",
                    label=shape,
                )
            axes.set_xscale("symlog", linthresh=1000)  # shows the fresh table at 0
            axes.set_ylim(bottom=0)
            axes.set_title(f"{call}: {title}", fontsize=9, loc="left")
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].legend(fontsize=8, frameon=False)
    figure.suptitle(caption, fontsize=9)
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file)
