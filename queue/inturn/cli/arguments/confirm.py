"""Confirm irreversible changes: with a prompt on a terminal, with `--yes` elsewhere."""

import sys

import click

from inturn.cli.output.exit_status import Declined, Unconfirmed
from inturn.cli.output.printing import held

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def confirm(question: str, *, yes: bool, command: str) -> None:
    """Raise unless the user agrees. `command` does the same without a prompt."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Unconfirmed(
            f"{question} There is no terminal to confirm on. To proceed, run: {command}"
        )
    if (cell := held.get()) is not None:
        cell.say()
        question = f"cell {cell.cell}: {question}"
    if not click.confirm(question, default=False, err=True):
        raise Declined("Nothing was changed.")
