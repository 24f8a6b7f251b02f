"""Before what cannot be undone: a question on a terminal, `--yes` elsewhere."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from inturn.cli.exit_status import Declined, Unconfirmed

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)


def ask(question: str, *, yes: bool, command: str) -> None:
    """Go on only if that is what is meant; `command` says the same without a question."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Unconfirmed(
            f"{question} Without a terminal nobody can be asked. If you mean it: {command}"
        )
    if not click.confirm(question, default=False, err=True):
        raise Declined("Nothing was changed.")
