"""Complete the commands that inturn suggests, so that they run as printed."""

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress

import click

from inturn.cli.settings import Settings
from inturn.errors import ConfigurationError
from inturn.formatting import GROUPS, name_command

COMMAND = re.compile(rf"\bqueue ((?:{GROUPS}) [a-z-]+|doctor|migrate|healthchecks|verify|worker)\b")
ANY_APP = "package.module:app"
WITHOUT_SCHEMA = ("worker",)
FOR_ANOTHER_LOGIN = ("schema grants",)  # the login that lacks a right cannot grant it


def complete(text: str, settings: Settings | None = None) -> str:
    """Add this command line's app and database to each command in the text.

    `settings` defaults to those of the running command.
    """
    if settings is None:
        context = click.get_current_context(silent=True)
        settings = None if context is None else context.find_object(Settings)
    if settings is None:
        return text
    known = settings
    return COMMAND.sub(lambda found: " ".join(_words(found[1], known)), text)


def _words(command: str, settings: Settings) -> Iterator[str]:
    named = name_command(f"queue {command}", settings.program)
    is_djangos = settings.dsn is None and not named.startswith(f"{settings.program} ")
    if command in FOR_ANOTHER_LOGIN or is_djangos:
        yield named
        return
    yield settings.program
    app = settings.given_app or (ANY_APP if command == "worker" and _has_no_app(settings) else None)
    if app is not None:
        yield f"-a {shlex.quote(app)}"
    yield command
    if settings.dsn is not None:
        yield f"--dsn {'…' if _holds_a_password(settings.dsn) else shlex.quote(settings.dsn)}"
    if settings.cell is not None:
        yield f"--cell{'s' if command == 'worker' else ''} {settings.cell}"
    if settings.schema is not None and command not in WITHOUT_SCHEMA:
        yield f"--schema {shlex.quote(settings.schema)}"


def _has_no_app(settings: Settings) -> bool:
    with suppress(ConfigurationError):
        return settings.app_path() is None
    return True


def _holds_a_password(dsn: str) -> bool:
    """Return True if the address has a password or cannot be parsed."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return "password" in conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return True
