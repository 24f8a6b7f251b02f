"""Confirm changes that cannot be undone: by a question on a terminal, by `--yes` elsewhere."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from inturn.cli.output.exit_status import Declined, Unconfirmed

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    """Add --yes, which the command passes on to `confirm`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, *, yes: bool, command: str) -> None:
    """Raise unless the user agrees. `command` does the same without a question."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Unconfirmed(
            f"{question} There is no terminal to confirm this on. To go ahead, run: {command}"
        )
    if not click.confirm(question, default=False, err=True):
        raise Declined("Nothing was changed.")
