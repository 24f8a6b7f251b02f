"""Metrics of all cells, read side by side, with the label `cell`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from inturn.cells.asking import ask_all
from inturn.database.connector import Connector
from inturn.metrics.database import DatabaseMetrics


class CellMetrics:
    """A collector for a registry. If a cell does not answer, its `inturn_database_up` is 0."""

    def __init__(self, homes: Sequence[Connector]) -> None:
        self._each = [DatabaseMetrics(home) for home in homes]

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        numbers = range(len(self._each))
        read = ask_all(numbers, lambda cell: list(self._each[cell].collect()))
        for cell, metrics in read.items():
            for metric in metrics:
                known = found.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                known.samples += [
                    sample._replace(labels={"cell": str(cell), **sample.labels})
                    for sample in metric.samples
                ]
        yield from found.values()

    def close(self) -> None:
        for each in self._each:
            each.close()
