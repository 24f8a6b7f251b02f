"""`queue dev`: a PostgreSQL server to develop with, and a worker that restarts on changes."""

import logging
import shlex
import signal
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import click

from inturn.cli.output import logs
from inturn.cli.output.exit_status import Conflict
from inturn.cli.processes.dev_server import (
    FOLDER,
    VARIABLE,
    announce,
    find_address,
    find_dev_server,
    keep_address,
)
from inturn.cli.processes.web_server import LOOPBACK, PORT, listen, serve_beside
from inturn.cli.settings import Settings, app_option, pass_settings, verbose_option
from inturn.cli.values import PORT_NUMBER
from inturn.errors import ConfigurationError, MissingExtra

logger = logging.getLogger("inturn.dev")


@click.command(
    "dev",
    epilog="""\b
Examples:
  queue dev                  a PostgreSQL server until Ctrl-C
  queue dev shop.tasks:app   also a worker that restarts when a file changes
  queue dev --port 5433      also for programs that need a port""",
)
@click.argument("path", metavar="[APP]", required=False)
@click.option(
    "--port",
    type=PORT_NUMBER,
    help=f"Let the server listen on this port of {LOOPBACK} too, with a password.",
)
@click.option(
    "--web/--no-web", "has_web", default=True, help="Serve the dashboard. This is the default."
)
@click.option(
    "--web-port",
    type=PORT_NUMBER,
    help=f"Serve the dashboard at this port. [default: {PORT}, or a free one if that is taken, "
    "and the same at the next start]",
)
@app_option
@logs.log_options
@verbose_option
@pass_settings
def command(
    settings: Settings,
    path: str | None,
    port: int | None,
    has_web: bool,
    web_port: int | None,
    log_level: str | None,
    log_format: str,
) -> None:
    """Start a PostgreSQL server, a worker and the dashboard, for development.

    The worker runs the jobs of APP, and restarts when you change a .py file below the current
    folder. Without APP, there is no worker. The data stays in .inturn in this folder, where other
    commands find the server. The log has a link to the dashboard. Both addresses are the same at
    each start, and the log says so if one is taken. Ctrl-C ends the worker, then the rest.
    """
    path = path or settings.app_path()
    if path is not None and find_spec("watchfiles") is None:
        raise ConfigurationError(
            "queue dev needs the package watchfiles to detect changes. "
            "Run: pip install 'inturn[dev]'"
        )
    logs.configure(verbose=settings.verbose, level=log_level, form=log_format)
    options = ["--log-format", log_format]  # the worker writes into the same log
    options += [] if log_level is None else ["--log-level", log_level]
    options += ["-v"] if settings.verbose else []
    asked = Event()

    def stop(*_: object) -> None:
        asked.set()  # since an exception that is raised in the garbage collector is lost
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)  # all mean: shut down cleanly
    with suppress(KeyboardInterrupt):
        _serve(path, port, asked, options, has_web=has_web, web_port=web_port)
    logger.info("dev.stopped: the data stays in %s", FOLDER)


def _serve(
    path: str | None,
    port: int | None,
    asked: Event,
    options: Sequence[str],
    *,
    has_web: bool,
    web_port: int | None,
) -> None:
    from inturn.embedded import Server
    from inturn.schema.migrate import migrate, prepare_history

    running = find_dev_server()
    if running is not None:
        raise Conflict(
            f"`queue dev` already runs in this folder (process {running.pid}). Commands in this "
            f"folder find its server. Elsewhere: export {VARIABLE}={shlex.quote(running.dsn)}"
        )
    data, address = _data_folder(), find_address()
    keep_address(address)
    if port is not None:
        listen(LOOPBACK, port).close()  # PostgreSQL would say less if the port is taken
    with (
        Server(data, port=port, password=address.password) as server,
        announce(server.dsn()),
        ExitStack() as beside,
    ):
        done = migrate(server.dsn())
        prepare_history(server.dsn())
        logger.info(
            "dev.started: PostgreSQL, data in %s, schema inturn: %s", FOLDER / "postgres", done
        )
        click.echo(f"{server.dsn()}\nexport {VARIABLE}={shlex.quote(server.dsn())}")
        if port is not None:
            logger.info("dev.port: the same database at a port: %s", server.port_dsn())
        if has_web:
            _serve_dashboard(server.dsn(), web_port, beside)
        if path is None:
            logger.info("dev.ready: no worker, because you named no app. Ctrl-C ends the server")
            while not asked.wait(1):
                pass
            return
        from inturn.cli.processes.dev_worker import follow

        if not asked.is_set():
            follow(path, server.dsn(), options)


def _serve_dashboard(dsn: str, port: int | None, beside: ExitStack) -> None:
    kept = find_address()
    wanted = port or kept.web_port or PORT
    try:
        link = beside.enter_context(serve_beside(dsn, port, near=wanted, key=kept.key))
    except MissingExtra as missing:
        logger.info("dev.no_dashboard: %s", missing)
        return
    found = urlsplit(link).port
    if port is None and kept.web_port is None:
        keep_address(kept._replace(web_port=found))
    taken = "" if found == wanted else f". Another process has port {wanted}"
    logger.info("dev.dashboard: %s shows your lanes and jobs%s", link, taken)


def _data_folder() -> Path:
    try:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / ".gitignore").write_text("*\n")
    except OSError as error:
        raise ConfigurationError(
            f"The folder {FOLDER} cannot be created here: {error}. Run this in a writable folder."
        ) from error
    return FOLDER / "postgres"
