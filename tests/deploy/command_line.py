"""Parses a command as our command line would, without running it."""

from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import click

from inturn.cli import queue
from inturn.cli.settings import Settings


def parse(words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the command's name and what its options are.

    Raise click's error if there is no such command or option, or if a value is wrong.
    """
    with mock.patch.dict("os.environ", variables):
        context = queue.make_context("queue", list(words), obj=Settings())
        names: list[str] = []
        while isinstance(context.command, click.Group):
            given = [*context._protected_args, *context.args]
            if not given:
                break  # a group by itself
            name, command, rest = context.command.resolve_command(context, given)
            assert command is not None
            names.append(str(name))
            context = command.make_context(name, rest, parent=context)
    return " ".join(names), context.params


def flag_of(variable: str) -> bool:
    """Return True if an option of `queue worker` reads this variable."""
    from inturn.cli.commands import worker

    return any(variable in (option.envvar or []) for option in worker.command.params)
