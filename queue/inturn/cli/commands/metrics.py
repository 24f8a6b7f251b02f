"""`queue metrics`: metrics of the whole queue, for Prometheus."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING

import click

from inturn.cli.settings import Settings, database_options, find_connector
from inturn.cli.values import ANY_PORT

if TYPE_CHECKING:
    from inturn.cells.metrics import CellMetrics
    from inturn.database.connector import Connector
    from inturn.metrics.database import DatabaseMetrics


@click.command(
    "metrics",
    epilog="""\b
Examples:
  queue metrics
  queue metrics --port 9187 --bind 0.0.0.0""",
)
@click.option(
    "--port",
    type=ANY_PORT,
    help="Serve the metrics at http://…:PORT/metrics until you stop it.",
)
@click.option(
    "--bind",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to serve metrics on.",
)
@database_options
def command(settings: Settings, port: int | None, bind: str) -> None:
    """Print the metrics of the queue, or serve them for Prometheus.

    They describe the whole queue, so export them once, however many workers you run. A worker
    serves its own metrics with `queue worker --metrics-port PORT`. Counts are capped. With cells,
    each series has the label `cell`.
    """
    from inturn.endpoint import Endpoint
    from inturn.metrics.exposition import make_route

    connector = find_connector(settings)
    with closing(_make_metrics(connector.homes)) as metrics:
        route = make_route(metrics)
        if port is None:
            if len(connector.homes) == 1:
                connector.homes[0].connect("metrics").close()  # fail now, with a clear error
            ((_, serve),) = route.items()
            click.echo(serve("").body.decode(), nl=False)
            return
        with Endpoint(bind, port, route) as endpoint:
            click.echo(f"serving {endpoint.address}/metrics", err=True)
            _wait_for_signal()


def _make_metrics(homes: Sequence[Connector]) -> DatabaseMetrics | CellMetrics:
    from inturn.metrics.database import DatabaseMetrics

    if len(homes) == 1:
        return DatabaseMetrics(homes[0])
    from inturn.cells.metrics import CellMetrics

    return CellMetrics(homes)


def _wait_for_signal() -> None:
    """Return at Ctrl-C or SIGTERM."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
