"""The data of a page's charts: how jobs ended, and how long they waited and ran."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from inturn.operations.reading import history
from inturn.operations.reading.history import Bucket
from inturn.web.charts import ChartSpan, EndChart, TimeChart, draw_ends, draw_times
from inturn.web.page import View
from inturn.web.reading import PageReader

RANGES = {  # the length, and the minutes per bucket
    "24h": (timedelta(hours=24), 60),
    "1h": (timedelta(hours=1), 5),
    "6h": (timedelta(hours=6), 20),
    "7d": (timedelta(days=7), 360),
}
ORDER = ("1h", "6h", "24h", "7d")


@dataclass(frozen=True, slots=True)
class History:
    buckets: list[Bucket]
    ends: EndChart
    waits: TimeChart
    runs: TimeChart
    ended: int
    failed: int


def read_history(
    view: View, *, task: str | None = None, queue: str | None = None
) -> dict[str, Any]:
    """Return the charts of the chosen range, for all jobs or those of a task or queue."""
    chosen = view.choose("range", tuple(RANGES))
    return {
        "ranges": ORDER,
        "chosen": chosen,
        "history": view.panel(lambda reader: _read(reader, view.now, chosen, task, queue)),
    }


def _read(
    reader: PageReader, now: datetime, chosen: str, task: str | None, queue: str | None
) -> History:
    length, minutes = RANGES[chosen]
    width = timedelta(minutes=minutes)
    # Buckets start at multiples of their width.
    seconds = width.total_seconds()
    until = datetime.fromtimestamp((now.timestamp() // seconds + 1) * seconds, now.tzinfo)
    span = ChartSpan(until - length, until, width)
    buckets = reader.run(history.list_buckets(span.since, minutes, task=task, queue=queue))
    return History(
        buckets,
        draw_ends(buckets, span),
        draw_times([(each.at, each.wait_p50, each.wait_p95) for each in buckets], span),
        draw_times([(each.at, each.run_p50, each.run_p95) for each in buckets], span),
        sum(each.succeeded + each.failed + each.cancelled + each.aborted for each in buckets),
        sum(each.failed for each in buckets),
    )
