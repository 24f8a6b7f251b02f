"""`queue metrics`: metrics of the whole queue, for Prometheus."""

import signal
from contextlib import closing
from threading import Event

import click

from inturn.cli.settings import Settings, bind_option, database_options, find_connector
from inturn.cli.values import ANY_PORT


@click.command(
    "metrics",
    epilog="""\b
Examples:
  queue metrics
  queue metrics --port 9187 --bind 0.0.0.0""",
)
@click.option(
    "--port", type=ANY_PORT, help="Serve the metrics at http://…:PORT/metrics until you stop it."
)
@bind_option(help="The address to serve metrics on.")
@database_options
def command(settings: Settings, port: int | None, bind: str) -> None:
    """Print the metrics of the queue, or serve them for Prometheus.

    They describe the whole queue, so export them once, however many workers you run. A worker
    serves its own metrics with `queue worker --metrics-port PORT`. Counts are capped. With cells,
    each series has the label `cell`.
    """
    from inturn.endpoint import Endpoint
    from inturn.metrics.database import DatabaseMetrics
    from inturn.metrics.exposition import PATH, make_route

    homes = find_connector(settings).homes
    from inturn.cells.metrics import CellMetrics  # after inturn.metrics, which names its extra

    collector: DatabaseMetrics | CellMetrics
    collector = DatabaseMetrics(homes[0]) if len(homes) == 1 else CellMetrics(homes)
    with closing(collector) as metrics:
        route = make_route(metrics)
        if port is None:
            if len(homes) == 1:
                homes[0].connect("metrics").close()  # fail now, with a clear error
            click.echo(route[PATH]("").body.decode(), nl=False)
            return
        with Endpoint(bind, port, route) as endpoint:
            click.echo(f"serving {endpoint.address}{PATH}", err=True)
            stop = Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.set())
            stop.wait()
