"""`queue health`: ask a worker whether it is alive, and whether it is ready for jobs."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from inturn.cli.output.exit_status import UNHEALTHY
from inturn.cli.values import Number

F = TypeVar("F", bound=Callable[..., Any])


def probe_options(command: F) -> F:
    """Add the options that say where the worker serves its health."""
    for add in (
        click.option(
            "--processes",
            type=Number(1, 256),
            default=1,
            metavar="N",
            envvar="INTURN_WORKER_PROCESSES",
            help="Ask so many workers, at this port and the next ones.  [default: 1]",
        ),
        click.option(
            "--host", default="127.0.0.1", metavar="ADDRESS", help="Where it runs.  [default: here]"
        ),
        click.option(
            "-p",
            "--port",
            type=Number(1, 65535),
            required=True,
            metavar="PORT",
            envvar="INTURN_WORKER_HEALTH_PORT",
            help="The worker's --health-port.",
        ),
    ):
        command = add(command)
    return command


@click.group("health", epilog="Example: queue health live --port 8081")
def command() -> None:
    """Ask a worker of this machine how it is. It needs a --health-port.

    Exits with status 10 if the worker says no, or does not answer.
    """


@command.command("live", epilog="Example: queue health live --port 8081")
@probe_options
def live(port: int, host: str, processes: int) -> None:
    """Is it alive? If not, only a restart helps. The database does not count."""
    from inturn.health.checks import LIVE

    _ask(host, port, processes, LIVE)


@command.command("ready", epilog="Example: queue health ready --port 8081 --processes 4")
@probe_options
def ready(port: int, host: str, processes: int) -> None:
    """Can it run jobs now? It cannot while the database is away, or while it stops."""
    from inturn.health.checks import READY

    _ask(host, port, processes, READY)


def _ask(host: str, port: int, processes: int, path: str) -> None:
    from inturn.health.probe import ask

    replies = {each: ask(host, each, path) for each in range(port, port + processes)}
    for each, reply in replies.items():
        click.echo(f"{host}:{each} {reply.text}" if processes > 1 else reply.text)
    if not all(reply.is_ok for reply in replies.values()):
        raise SystemExit(UNHEALTHY)
