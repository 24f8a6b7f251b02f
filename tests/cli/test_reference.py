"""docs/cli.md leads to every command, and names every exit status and variable, and no other."""

import re
from importlib import import_module
from pathlib import Path

import click
import pytest

from inturn.cli import COMMANDS
from inturn.cli.commands import worker
from inturn.cli.output import exit_status
from tests.cli.conftest import Run
from tests.cli.test_help import words_of_all

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")


def first_cells(chapter: str, name: str = "cli") -> list[str]:
    """Return the first cell of each row of the tables in a chapter of a page."""
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    text = page.partition(f"## {chapter}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    return [
        cell.strip("`") for cell in rows if cell not in ("command", "status", "variable", "check")
    ]


def test_the_page_leads_to_each_command() -> None:
    groups = {words[0] for words in words_of_all() if len(words) == 2}
    commands = [
        " ".join(["queue", *words])
        for words in words_of_all()
        if words and not (len(words) == 1 and words[0] in groups)
    ]
    chapter = PAGE.partition("## Commands\n")[2].partition("\n## ")[0]
    named = []
    for command, verbs in re.findall(r"^\| `(queue [a-z]+)` \| (.+) \|$", chapter, re.MULTILINE):
        found = re.findall(r"`([a-z-]+)`", verbs)
        named += [f"{command} {verb}" for verb in found] or [command]
    assert len(named) == len(set(named))
    assert set(named) <= set(commands)
    assert {each.split()[1] for each in named} == {each.split()[1] for each in commands}


def test_every_exit_status_is_on_the_page_and_in_the_help(run: Run) -> None:
    named = {
        value
        for name, value in vars(exit_status).items()
        if name.isupper() and isinstance(value, int)
    }
    assert {int(cell) for cell in first_cells("Exit status")} == named | {0, 143}
    told = run("--help").stdout.partition("Exit status:")[2]
    assert {int(number) for number in re.findall(r"\b\d+\b", told)} == named | {0, 143}


def test_every_variable_is_on_the_page() -> None:
    told = [*first_cells("Variables"), *find_worker_variables()]
    assert len(told) == len(set(told))
    read = set()  # not in Django, whose settings have such names too
    package = Path(worker.__file__).parents[2]
    for file in set(package.rglob("*.py")) - set((package / "django").rglob("*.py")):
        read |= set(re.findall(r'"(INTURN_[A-Z_]+[A-Z])"', file.read_text(encoding="utf-8")))
    options = {
        name
        for words in words_of_all()
        if words
        for option in find(words).params
        for name in ([option.envvar] if isinstance(option.envvar, str) else option.envvar or [])
    }
    private = {name for name in read if name.startswith("INTURN_SUPERVISOR_")}
    assert set(told) == (read - private) | options | {"DATABASE_URL"}


def test_every_variable_of_the_worker_stands_beside_its_option() -> None:
    options = {spelled: option for option in worker.command.params for spelled in option.opts}
    for variable, named in find_worker_variables().items():
        assert any(variable in (options[each].envvar or []) for each in named), variable


def find_worker_variables() -> dict[str, list[str]]:
    """Return the variable of each long name in the chapter of the worker, with its option.

    The page of the command line says how it is called, unless the option names it.
    """
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    chapter = page.partition("\n## queue worker\n")[2].partition("\n## ")[0]
    assert "`INTURN_WORKER_QUEUES` for `--queues`" in PAGE
    return {
        f"INTURN_WORKER_{name[2:].replace('-', '_').upper()}": [name]
        for option, meaning in re.findall(r"^\* `(.+?)`: (.+)$", chapter, re.MULTILINE)
        for name in re.findall(r"--[a-z-]+", option.partition(" / ")[0])
        if "`INTURN_" not in meaning
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_for_each_shell_prints_a_script(shell: str, run: Run) -> None:
    assert f"_QUEUE_COMPLETE={shell}_source queue" in PAGE
    assert "_QUEUE_COMPLETE" in run(_QUEUE_COMPLETE=f"{shell}_source").stdout


def find(words: list[str]) -> click.Command:
    command: click.Command = import_module(f"inturn.cli.commands.{words[0]}").command
    assert words[0] in COMMANDS
    for name in words[1:]:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command
