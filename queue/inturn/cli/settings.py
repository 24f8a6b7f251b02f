"""Options shared by all commands: the app, the database and the log level."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inturn.cli.suggestions import likely_app
from inturn.errors import ConfigurationError, InturnError, LoadFromPathError

if TYPE_CHECKING:
    from inturn.app import App
    from inturn.database.connector import Connector

F = TypeVar("F", bound=Callable[..., Any])


ENTRY = ("-m", "inturn.cli")


class Terminated(SystemExit):
    """Raised at SIGTERM. A plain SystemExit may come from your module, which may be a script."""


@dataclass
class Settings:
    """Options that you can give before or after the command.

    `given_app` is the value of -a: if you give it twice, the later one wins. `call` holds the
    interpreter's arguments that run the same command in a new process, and `program` is what you
    typed to run this one.
    """

    default_app: str | None = None
    verbose: bool = False
    call: Sequence[str] = ENTRY
    program: str = "queue"
    given_app: str | None = None
    dsn: str | None = None
    schema: str | None = None
    cell: int | None = None

    @property
    def app(self) -> str | None:
        """The app of -a or of the embedding program; see `app_path` for the other sources."""
        return self.default_app if self.given_app is None else self.given_app

    def app_path(self) -> str | None:
        """Return the path of the app, or None.

        It comes from -a, else from INTURN_APP, else from `[tool.inturn] app` in ./pyproject.toml.
        """
        return self.app or os.environ.get("INTURN_APP") or _configured_app(Path("pyproject.toml"))


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def combine(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds these options, in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _note(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep an option in the settings if it is given."""
    if value is not None and value is not False:
        setattr(context.ensure_object(Settings), str(option.name), value)


_option = partial(click.option, expose_value=False, callback=_note)
app_option = _option(
    "-a",
    "--app",
    "given_app",
    metavar="MODULE:APP",
    help="Your app, before or after the command. You can also set INTURN_APP, or `app` under "
    "[tool.inturn] in ./pyproject.toml.",
)
dsn_option = _option(
    "--dsn",
    metavar="DSN",
    help="The database. You can also set INTURN_DSN, DATABASE_URL, or PGHOST and the other PG "
    "variables. All users of this machine can see this option in the process list, so put a "
    "password into INTURN_DSN or PGPASSFILE.",
)
schema_option = _option(
    "--schema",
    metavar="NAME",
    help="The queue's schema in the database.  [default: inturn]",
)
verbose_option = _option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show debug messages, and the traceback of an error.",
)


class CellNumber(click.IntRange):
    """The number of a cell. Say where a cell key belongs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"{value!r} is not the number of a cell. A cell key belongs in a lock, as in "
                "--lock '{tenant:7}order:9'",
                param,
                ctx,
            )


cell_option = _option(
    "--cell",
    type=CellNumber(0),
    metavar="N",
    help="Only this cell, if the queue has cells (INTURN_CELLS).  [default: all]",
)
bind_option = partial(
    click.option, "--bind", metavar="ADDRESS", default="127.0.0.1", show_default=True
)
# They choose a database. The command gets the Settings first.
database_options = combine(
    app_option, dsn_option, schema_option, cell_option, verbose_option, pass_settings
)


def load_app(
    path: str, dsn: str | None = None, schema: str | None = None, cell: int | None = None
) -> App:
    """Import the user's app and tasks. If that fails, raise ConfigurationError with the line."""
    from inturn.app import App

    here = str(Path.cwd())
    if here not in sys.path[:1]:  # --watch repeats this
        sys.path.insert(0, here)
    try:
        app = App.from_path(path)
        app.perform_import_paths()
    except LoadFromPathError as error:
        raise LoadFromPathError(f"{error}{likely_app(path)}") from None
    except (InturnError, KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # even SystemExit
        text = f"{path!r} cannot be imported: {_where(error)}{_advise_django(error)}"
        raise ConfigurationError(text) from error
    if dsn or schema:
        app.connector = app.connector.at(dsn, schema=schema)
    if cell is not None:
        app.connector = _choose_cell(app.connector, cell)
    return app


def find_app(settings: Settings) -> App:
    """Return the user's app or, if none is named, one that only knows the database."""
    from inturn.app import App

    path = settings.app_path()
    if path is None:
        return App(connector=find_connector(settings))
    return load_app(path, settings.dsn, settings.schema, settings.cell)


def find_connector(settings: Settings) -> Connector:
    """Return a connector for a command that needs a database but not your code.

    The app is imported only if -a names it.
    """
    from inturn.database.connectors import PsycopgConnector
    from inturn.sql import SCHEMA

    dsn, schema = settings.dsn, settings.schema
    if settings.app is not None:
        return load_app(settings.app, dsn, schema, settings.cell).connector
    cells = None if dsn or schema else os.environ.get("INTURN_CELLS")
    connector: Connector
    if cells:
        from inturn.cells.connector import Cells

        connector = Cells(cells)
    else:
        connector = PsycopgConnector(dsn, schema=schema or SCHEMA)
    return connector if settings.cell is None else _choose_cell(connector, settings.cell)


def _choose_cell(connector: Connector, cell: int) -> Connector:
    """Return the connector of the cell that --cell names."""
    home = connector.find_home(cell)
    if home is connector:
        raise ConfigurationError(
            "--cell: there are no cells here. Set INTURN_CELLS, name an app that has cells with "
            "-a, or omit it"
        )
    return home


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
            f"{file}: [tool.inturn] app = {app!r} is not text. Write: app = 'package.module:app'"
        )
    return app


def _where(error: BaseException) -> str:
    """Return the error on one line, with the line of code that raised it."""
    import traceback

    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
    ]
    if isinstance(error, SyntaxError):  # its text names the place
        return text
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _advise_django(error: BaseException) -> str:
    """Return what to run instead, if the app's project is Django's and nothing has set it up."""
    if type(error).__module__ != "django.core.exceptions":
        return ""
    from django.apps import apps

    return "" if apps.ready else ". In a Django project, run: manage.py queue"
