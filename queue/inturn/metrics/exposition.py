"""Metrics as Prometheus reads them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from inturn.endpoint import Answer, Route
from inturn.metrics.catalogue import METRICS, Kind

PATH = "/metrics"


class Source(Protocol):
    """A registry, or a part of one."""

    def collect(self) -> Iterable[Metric]:
        """Return metrics with their current values."""


class Sources:
    def __init__(self, *sources: Source) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield from source.collect()


class WithoutCreated:
    """A source without the series `_created`, which would double the number of series."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        for metric in self._source.collect():
            metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
            yield metric


def family(name: str, values: Mapping[Any, float] | float) -> Metric:
    """Return a gauge or a counter of the catalogue, with a value for each tuple of labels."""
    about = METRICS[name]
    rows = values if isinstance(values, Mapping) else {(): values}
    kind = CounterMetricFamily if about.kind is Kind.COUNTER else GaugeMetricFamily
    found = kind(name, about.help, labels=about.labels)
    for labels, value in rows.items():
        found.add_metric(list(labels), value)
    return found


def make_route(source: Source) -> dict[str, Route]:
    """Return the route that serves the metrics."""

    def serve(accept: str) -> Answer:
        encode, content_type = choose_encoder(accept)
        return Answer(200, content_type, encode(source))

    return {PATH: serve}
