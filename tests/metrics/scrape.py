"""Ask a process for its health and its metrics, as a probe and Prometheus do."""

import json
import socket
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

PATIENCE = 30.0  # seconds; only keeps a failing test from hanging


class Reply(NamedTuple):
    """A status of 0 means that nobody answers."""

    status: int
    text: str

    @property
    def checks(self) -> dict[str, str]:
        found: dict[str, Any] = json.loads(self.text)
        assert found["status"] == ("ok" if self.status == 200 else "failed")
        return dict(found["checks"])


def get(port: int, path: str) -> Reply:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return Reply(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.read().decode())
    except (urllib.error.URLError, ConnectionError):
        return Reply(0, "")


class Samples:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.families: list[Metric] = list(text_string_to_metric_families(text))
        self.text = text

    def __getitem__(self, name: str) -> float:
        """Return the value of a series without labels."""
        return self.of(name)

    def of(self, name: str, **labels: str) -> float:
        """Return the sum of the series that have these labels, 0 if the metric has none yet."""
        found = [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert found or any(name.startswith(each.name) for each in self.families), self.text
        return float(sum(found))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Return the values that are not 0, by one label."""
        return {
            sample.labels[label]: sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and sample.value and labels.items() <= sample.labels.items()
        }


def scrape(port: int) -> Samples:
    reply = get(port, "/metrics")
    assert reply.status == 200, reply
    return Samples(reply.text)


def free_ports(count: int = 1) -> int:
    """Return the first of so many ports in a row that nobody has."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = int(first.getsockname()[1])
        try:
            for each in range(port, port + count):
                socket.create_server(("127.0.0.1", each)).close()
        except (OSError, OverflowError):
            continue
        return port
