"""`queue dev`: a PostgreSQL server to develop with, and a worker that restarts on changes."""

import logging
import shlex
import signal
from importlib.util import find_spec
from pathlib import Path

import click

from inturn.cli import logs
from inturn.cli.settings import Settings, app_option, pass_settings, verbose_option
from inturn.errors import ConfigurationError

logger = logging.getLogger("inturn.dev")
FOLDER = Path(".inturn")


@click.command(
    "dev",
    epilog="""\b
Examples:
  queue dev                  a PostgreSQL server until Ctrl-C
  queue dev shop.tasks:app   and a worker that restarts when a file changes""",
)
@click.argument("path", metavar="[APP]", required=False)
@app_option
@verbose_option
@pass_settings
def command(settings: Settings, path: str | None) -> None:
    """Start a PostgreSQL server and a worker, for development.

    The worker runs the jobs of APP, and restarts when you change a .py file below the current
    folder. Without APP there is only the server. The data stays in .inturn in this folder. Ctrl-C
    ends the worker, then the server.
    """
    path = path or settings.app_path()
    if path is not None and find_spec("watchfiles") is None:
        raise ConfigurationError(
            "queue dev needs the package watchfiles to notice changes. "
            "Run: pip install 'inturn[dev]'"
        )
    logs.configure(verbose=settings.verbose)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # both mean: end in order
    try:
        _serve(path, verbose=settings.verbose)
    except KeyboardInterrupt:
        logger.info("dev.stopped: the data stays in %s", FOLDER)


def _serve(path: str | None, *, verbose: bool) -> None:
    from inturn.embedded import Server
    from inturn.schema.migrate import migrate

    with Server(_data_folder()) as server:
        done = migrate(server.dsn())
        logger.info(
            "dev.started: PostgreSQL, data in %s, schema inturn: %s", FOLDER / "postgres", done
        )
        click.echo(f"{server.dsn()}\nexport INTURN_DSN={shlex.quote(server.dsn())}")
        if path is None:
            logger.info(
                "dev.ready: you named no app, so there is no worker. Ctrl-C ends the server"
            )
            while True:
                signal.pause()
        from inturn.cli.dev_worker import follow

        follow(path, server.dsn(), verbose=verbose)


def _data_folder() -> Path:
    try:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / ".gitignore").write_text("*\n")
    except OSError as error:
        raise ConfigurationError(
            f"The folder {FOLDER} cannot be created here: {error}. "
            "Run this in a folder that you may write to."
        ) from error
    return FOLDER / "postgres"
