"""What commands share: which app, which database, how much to say."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inturn.errors import ConfigurationError, InturnError

if TYPE_CHECKING:
    from inturn.app import App
    from inturn.database.connector import Connector

F = TypeVar("F", bound=Callable[..., Any])


ENTRY = ("-m", "inturn.cli")


@dataclass
class Settings:
    """`app` was said on the command line, before or after the command; later wins.

    `call`: what the interpreter is told to do the same in a process of its own.
    """

    app: str | None = None
    verbose: bool = False
    call: Sequence[str] = ENTRY

    def app_path(self) -> str | None:
        """The command line, else INTURN_APP, else `[tool.inturn] app` of ./pyproject.toml."""
        return self.app or os.environ.get("INTURN_APP") or _configured_app(Path("pyproject.toml"))


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def app_option(command: F) -> F:
    return click.option(
        "-a",
        "--app",
        metavar="MODULE:APP",
        expose_value=False,
        callback=_note_app,
        help="The app with your tasks, before or after the command. Also INTURN_APP, or `[tool.inturn] app` in ./pyproject.toml.",
    )(command)


def verbose_option(command: F) -> F:
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_note_verbose,
        help="Say more: debug messages, and the traceback of an error.",
    )(command)


def dsn_option(command: F) -> F:
    return click.option(
        "--dsn",
        metavar="DSN",
        help="The database. Also INTURN_DSN, DATABASE_URL or PGHOST and the other PG variables. A process list shows this to "
        "everybody: give a password by INTURN_DSN or PGPASSFILE.",
    )(command)


def schema_option(command: F) -> F:
    return click.option(
        "--schema", metavar="NAME", help="The database schema of the queue.  [default: inturn]"
    )(command)


def load_app(path: str, dsn: str | None = None, schema: str | None = None) -> App:
    """Import the user's app and tasks. Whatever their import raises is reported as theirs."""
    from inturn.app import App

    sys.path.insert(0, str(Path.cwd()))
    try:
        app = App.from_path(path)
        app.perform_import_paths()
    except (InturnError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: a script that runs when it is imported
        raise ConfigurationError(f"{path!r} cannot be imported: {_where(error)}") from error
    if dsn or schema:
        app.connector = app.connector.at(dsn, schema=schema)
    return app


def find_connector(settings: Settings, dsn: str | None, schema: str | None) -> Connector:
    """For commands that need a database and nobody's code: an app is asked only if the command line names it."""
    from inturn.database.connectors import PsycopgConnector
    from inturn.sql import SCHEMA

    if settings.app is not None:
        return load_app(settings.app, dsn, schema).connector
    return PsycopgConnector(dsn, schema=schema or SCHEMA)


def _note_app(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).app = value


def _note_verbose(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Settings).verbose = True


def _configured_app(file: Path) -> str | None:
    import tomllib

    try:
        tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error
    app = tool.get("inturn", {}).get("app")
    if app is not None and not isinstance(app, str):
        raise ConfigurationError(
            f"{file} says [tool.inturn] app = {app!r}. Write it as text: app = 'package.module:app'"
        )
    return app


def _where(error: BaseException) -> str:
    """The error in one line, with the line of code that raised it."""
    import traceback

    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
    ]
    if isinstance(error, SyntaxError):  # says itself where it is
        return text
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
