"""`queue health`: ask whether a worker is alive and ready for jobs."""

import click

from inturn.cli.output.exit_status import UNHEALTHY
from inturn.cli.settings import combine
from inturn.cli.values import PORT_NUMBER, Number

probe_options = combine(
    click.option(
        "-p",
        "--port",
        type=PORT_NUMBER,
        required=True,
        envvar="INTURN_WORKER_HEALTH_PORT",
        help="The worker's --health-port.",
    ),
    click.option(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="The worker's address.  [default: 127.0.0.1]",
    ),
    click.option(
        "--processes",
        type=Number(1, 256),
        default=1,
        envvar="INTURN_WORKER_PROCESSES",
        help="Ask this many workers, at this port and the next ones.  [default: 1]",
    ),
)


@click.group("health", epilog="Example: queue health live --port 8081")
def command() -> None:
    """Ask a worker that has a --health-port about its health.

    Exits with status 10 if the answer is no, or if there is none.
    """


@command.command("live", epilog="Example: queue health live --port 8081")
@probe_options
def live(port: int, host: str, processes: int) -> None:
    """Check whether the worker is alive. If not, restart it. Ignores the database."""
    from inturn.health.checks import LIVE

    _ask(host, port, processes, LIVE)


@command.command("ready", epilog="Example: queue health ready --port 8081 --processes 4")
@probe_options
def ready(port: int, host: str, processes: int) -> None:
    """Check whether the worker can run jobs: the database is up, and it is not stopping."""
    from inturn.health.checks import READY

    _ask(host, port, processes, READY)


def _ask(host: str, port: int, processes: int, path: str) -> None:
    from inturn.health.probe import ask

    replies = {each: ask(host, each, path) for each in range(port, port + processes)}
    for each, reply in replies.items():
        click.echo(f"{host}:{each} {reply.text}" if processes > 1 else reply.text)
    if not all(reply.is_ok for reply in replies.values()):
        raise SystemExit(UNHEALTHY)
