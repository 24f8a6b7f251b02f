"""Metrics as Prometheus reads them."""

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from inturn.endpoint import Answer, Route
from inturn.metrics.catalogue import METRICS

PATH = "/metrics"


def family(name: str, values: Mapping[Any, float] | float) -> Metric:
    """Return a gauge or a counter of the catalogue, with a value for each tuple of labels."""
    about = METRICS[name]
    rows = values if isinstance(values, Mapping) else {(): values}
    kind = CounterMetricFamily if about.kind == "counter" else GaugeMetricFamily
    found = kind(name, about.help, labels=about.labels)
    for labels, value in rows.items():
        found.add_metric(list(labels), value)
    return found


def make_route(source: Collector) -> dict[str, Route]:
    def serve(accept: str) -> Answer:
        encode, content_type = choose_encoder(accept)
        return Answer(200, content_type, encode(source))

    return {PATH: serve}
