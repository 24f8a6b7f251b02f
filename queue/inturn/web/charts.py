"""Charts as shapes with coordinates. Templates draw them as SVG, next to a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from inturn.operations.reading.history import Bucket

WIDTH, HEIGHT = 600, 120
GAP = 0.22  # of a bar's width
TICKS = 4
KINDS = ("ok", "cancelled", "failed")  # parts of a column, from the bottom


class Bar(NamedTuple):
    """A part of a column."""

    kind: str
    x: float
    y: float
    width: float
    height: float


class Tick(NamedTuple):
    """A time below a chart."""

    x: float
    text: str
    at: str


@dataclass(frozen=True, slots=True)
class EndChart:
    """The number of ended jobs per bucket."""

    bars: list[Bar]
    ticks: list[Tick]
    highest: int


@dataclass(frozen=True, slots=True)
class TimeChart:
    """How long jobs took, as percentiles p50 and p95."""

    p50: list[tuple[float, float]]
    p95: list[tuple[float, float]]
    ticks: list[Tick]
    highest: timedelta


class ChartSpan(NamedTuple):
    """The time range of a chart, divided into buckets."""

    since: datetime
    until: datetime
    width: timedelta
    across: float = WIDTH

    def place(self, at: datetime) -> float:
        """Return the x coordinate of a time."""
        return self.across * ((at - self.since) / (self.until - self.since))


def draw_ends(buckets: Sequence[Bucket], span: ChartSpan) -> EndChart:
    """Return a column for each bucket: succeeded at the bottom, then cancelled, then failed."""
    counts = [(each.succeeded, each.cancelled + each.aborted, each.failed) for each in buckets]
    highest = max(map(sum, counts), default=0)
    column = WIDTH * (span.width / (span.until - span.since))
    width = round(column * (1 - GAP), 1)
    bars = []
    for bucket, parts in zip(buckets, counts, strict=True):
        x = round(max(0.0, span.place(bucket.at)), 1)
        top = float(HEIGHT)
        for kind, count in zip(KINDS, parts, strict=True):
            if count:
                height = max(1.5, HEIGHT * count / highest)
                top -= height
                bars.append(Bar(kind, x, round(top, 1), width, round(height, 1)))
    return EndChart(bars, draw_ticks(span), highest)


def draw_times(
    times: Sequence[tuple[datetime, timedelta | None, timedelta | None]], span: ChartSpan
) -> TimeChart:
    """Return lines through p50 and p95 at these times."""
    highest = max([p95 for _, _, p95 in times if p95 is not None], default=timedelta(0))
    return TimeChart(
        _draw_line([(at, p50) for at, p50, _ in times], span, highest),
        _draw_line([(at, p95) for at, _, p95 in times], span, highest),
        draw_ticks(span),
        highest,
    )


def draw_ticks(span: ChartSpan) -> list[Tick]:
    """Return some times at equal distances."""
    length = span.until - span.since
    form = "%H:%M:%S" if length < timedelta(minutes=10) else "%H:%M"
    form = "%a %H:%M" if length > timedelta(days=2) else form
    form = "%Y-%m-%d" if length > timedelta(days=7) else form
    times = [span.since + length * part / TICKS for part in range(TICKS)]
    ticks = [Tick(round(span.place(at), 1), f"{at:{form}}", at.isoformat()) for at in times]
    return list({tick.text: tick for tick in reversed(ticks)}.values())[::-1]  # without duplicates


def _draw_line(
    points: Sequence[tuple[datetime, timedelta | None]], span: ChartSpan, highest: timedelta
) -> list[tuple[float, float]]:
    middle = span.width / 2
    return [
        (
            round(max(0.0, span.place(at + middle)), 1),
            round(HEIGHT - HEIGHT * (value / highest), 1),
        )
        for at, value in points
        if value is not None and highest
    ]
