"""Run `queue` in the test's own process, for tests that need no process of its own."""

import sys
from typing import Any

from click.testing import CliRunner, Result

from inturn.cli import run
from inturn.cli.settings import Settings


class _Script:
    """Looks like a click command to the runner, and ends as the console script does."""

    name = "queue"

    def main(self, args: list[str], prog_name: str) -> None:
        sys.exit(run(args, Settings(), prog_name))


def invoke(*words: str, **options: Any) -> Result:
    """Run a command, and return its exit code and output. `options` are those of the runner."""
    return CliRunner().invoke(_Script(), list(words), **options)  # type: ignore[arg-type]
