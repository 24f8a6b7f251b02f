"""A group of commands that lists what it is about."""

from typing import Any

import click


class ListGroup(click.Group):
    """Runs its command `list` if no other is named."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, invoke_without_command=True, **options)

    def invoke(self, context: click.Context) -> Any:
        found = super().invoke(context)
        if context.invoked_subcommand is None:
            found = context.invoke(self.commands["list"])
        return found
