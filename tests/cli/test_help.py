"""What `queue` says about itself, and how soon."""

import re
import subprocess
import sys
from importlib.metadata import version

import pytest

from inturn.cli import COMMANDS
from tests.cli.conftest import Run

LIST_MODULES = """
import sys
from inturn.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS), ["schema", "status"]])
def test_every_command_has_help_with_an_example(words: list[str], run: Run) -> None:
    ended = run(*words, "--help")
    assert ended.returncode == 0, ended.stderr
    assert re.search(rf"queue (-a \S+ )?{' '.join(words)}", ended.stdout.partition("Options:")[2])


@pytest.mark.parametrize("words", [["--help"], ["worker", "--help"], ["--version"], ["demo", "--nonsense"]])
def test_what_is_answered_at_once_waits_for_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LIST_MODULES, *words], capture_output=True, text=True, check=False)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "click" in loaded
    assert not loaded & {"psycopg", "sqlalchemy", "alembic", "rich", "anyio", "asyncio", "watchfiles"}


def test_the_version_is_told(run: Run) -> None:
    assert run("--version").stdout == f"inturn {version('inturn')}\n"


def test_an_unknown_command_is_exit_2(run: Run) -> None:
    ended = run("wroker")
    assert (ended.returncode, "No such command 'wroker'" in ended.stderr) == (2, True)
