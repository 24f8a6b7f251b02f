"""The help of `queue`, and how quickly it is there."""

import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import click
import pytest

from inturn.cli import COMMANDS
from tests.cli.conftest import Run

ANSWERED_AT_ONCE = [
    ["--help"],
    ["worker", "--help"],
    ["lanes", "skip-head", "--help"],
    ["jobs", "list", "--status", "nonsense"],
    ["doctor", "--help"],
    ["locks", "list", "--help"],
    ["--version"],
    ["demo", "--nonsense"],
    ["explain", "8"],
]

LIST_MODULES = """
import sys
from inturn.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def words_of_all() -> list[list[str]]:
    """Return every command, and every command of each group."""
    commands = {name: import_module(f"inturn.cli.commands.{name}").command for name in COMMANDS}
    groups = {
        name: command for name, command in commands.items() if isinstance(command, click.Group)
    }
    return [
        [],
        *([name] for name in commands),
        *([name, sub] for name in groups for sub in groups[name].commands),
    ]


@pytest.mark.parametrize("words", words_of_all(), ids=" ".join)
def test_every_command_has_help_with_an_example(words: list[str], run: Run) -> None:
    ended = run(*words, "--help")
    assert ended.returncode == 0, ended.stderr
    assert re.search(rf"queue (-a \S+ )?{' '.join(words)}", ended.stdout.partition("Options:")[2])


def options_of(words: list[str]) -> set[str]:
    command = import_module(f"inturn.cli.commands.{words[0]}").command
    for name in words[1:]:
        command = command.commands[name]
    return {spelled for option in command.params for spelled in option.opts}


@pytest.mark.parametrize(
    "words",
    [words for words in words_of_all() if words[-1:] in (["list"], ["show"], ["explain"])],
    ids=" ".join,
)
def test_every_command_that_shows_something_prints_json_too(words: list[str]) -> None:
    assert {"--output", "--json"} <= options_of(words)


@pytest.mark.parametrize(
    "words",
    [["jobs", "cancel"], ["jobs", "delete"], ["lanes", "skip-head"], ["lanes", "cancel-waiting"],
     ["locks", "break"]],
    ids=" ".join,
)  # fmt: skip
def test_every_command_that_cannot_be_undone_can_be_confirmed_in_advance(words: list[str]) -> None:
    assert {"-y", "--yes"} <= options_of(words)


@pytest.mark.parametrize("words", ANSWERED_AT_ONCE)
def test_help_and_mistakes_are_answered_without_loading_anything_heavy(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES, *words], capture_output=True, text=True, check=False
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "click" in loaded
    assert not loaded & {
        "psycopg",
        "sqlalchemy",
        "alembic",
        "rich",
        "anyio",
        "asyncio",
        "watchfiles",
    }


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").stdout == f"inturn {version('inturn')}\n"


def test_an_unknown_command_is_exit_2(run: Run) -> None:
    ended = run("wroker")
    assert (ended.returncode, "No such command 'wroker'" in ended.stderr) == (2, True)


def test_a_command_without_its_group_names_the_groups_that_have_it(run: Run) -> None:
    ended = run("explain", "8")
    assert ended.returncode == 2
    assert "There is: queue jobs explain, queue lanes explain\n" in ended.stderr
