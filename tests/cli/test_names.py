"""The command line under its names, its versions, and what a shell completes."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from inturn.cli.processes.dev_server import DevServer, announce, find_dev_server
from tests.cli.calling import SCRIPT, clean
from tests.cli.conftest import Run, Start, Until
from tests.cli.engine import Engine


@pytest.mark.landing
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ([str(SCRIPT)], "queue"),
        ([str(SCRIPT.with_name("inturn"))], "inturn"),
        ([sys.executable, "-m", "inturn"], "python -m inturn"),
    ],
    ids=["queue", "inturn", "python -m inturn"],
)
def test_each_name_runs_the_same_program_and_advises_under_that_name(
    command: list[str], name: str, engine: Engine
) -> None:
    ended = subprocess.run(
        [*command, "jobs", "show", "7"],
        env=clean({"INTURN_DSN": engine.dsn}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3
    assert ended.stderr.endswith(f"To see the newest ones: {name} jobs list\n")
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True).stdout
    assert f"New here? Run: {name} demo\n  For help on a command: {name} worker --help\n" in shown


def test_a_condition_before_a_command_does_not_change_the_name(engine: Engine) -> None:
    engine.defer("t", "a: queue lanes", on_failure="halt")
    engine.fail(engine.claim(), None, "no")
    shown = subprocess.run(
        [sys.executable, "-m", "inturn", "lanes", "explain", "a: queue lanes"],
        env=clean({"INTURN_DSN": engine.dsn}),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    advice = "once the cause is fixed: python -m inturn lanes retry-head 'a: queue lanes'\n"
    assert f"unblock: {advice}" in shown


def test_the_version_names_the_server_and_the_schema_if_a_database_is_named(
    run: Run, dsn: str, empty_dsn: str
) -> None:
    first, server, schema = run("-V", INTURN_DSN=dsn).stdout.splitlines()
    assert first == f"inturn {version('inturn')}"
    assert re.fullmatch(r"server: PostgreSQL \d+[.\d]*.*", server)
    assert schema == "schema inturn: revision 0001, matches this version"
    assert "does not fit" in run("--version", INTURN_DSN=empty_dsn).stdout
    away = run("--version", INTURN_DSN="postgresql://u:hunter@127.0.0.1:1/x")
    assert (away.returncode, "server: not reached" in away.stdout) == (0, True)
    assert "hunter" not in away.stdout


@pytest.mark.landing
def test_commands_find_the_server_of_queue_dev_in_their_folder(
    start: Start, run: Run, folder: Path, until: Until, dsn: str
) -> None:
    alone = run("jobs", "list")
    assert (alone.returncode, "No database is configured" in alone.stderr) == (2, True)
    dev = start("dev")
    until(lambda: (folder / "out").read_text().count("\n") == 2)
    address = (folder / "out").read_text().splitlines()[0]
    assert run("defer", "t").stdout == "1\n"
    assert run("-a", "tasks:app", "defer", "tasks.touch", "name=x").stdout == "2\n"
    assert json.loads(run("jobs", "list", "--json", INTURN_DSN=dsn).stdout) == []
    again = run("dev")
    assert again.returncode == 4
    assert f"already runs in this folder (process {dev.pid})" in again.stderr
    assert address in again.stderr
    dev.send_signal(signal.SIGINT)
    assert dev.wait(60) == 0
    assert "No database is configured" in run("jobs", "list").stderr


def test_what_a_killed_queue_dev_left_behind_is_not_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".inturn").mkdir()
    file = tmp_path / ".inturn" / "server.json"
    with announce("host=x"):
        assert find_dev_server() == DevServer("host=x", os.getpid())
        noted = file.read_text()
    assert find_dev_server() is None
    for left in (noted, "[]"):  # the number may be that of another process by now
        file.write_text(left)
        assert find_dev_server() is None


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("queue lanes explain ", ["two words", "order:1"]),
        ("queue lanes explain or", ["order:1"]),
        ("queue jobs show ", ["2", "1"]),
        ("queue jobs list --task ", ["ship", "charge"]),
        ("queue jobs list --queue ", ["default", "mail"]),
        ("queue defer ch", ["charge"]),
        ("queue -a tasks:app defer tasks.", ["tasks.stay", "tasks.touch", "tasks.work"]),
        ("queue lanes retry-h", ["retry-head"]),
        ("queue lanes list --state h", ["halted", "held"]),
    ],
)
def test_a_shell_completes_what_the_database_knows(
    engine: Engine, run: Run, words: str, completions: list[str]
) -> None:
    engine.defer("charge", "order:1")
    engine.defer("ship", "two words", queue="mail")
    assert complete(run, words, INTURN_DSN=engine.dsn) == completions


@pytest.mark.parametrize("dsn", ["", "host=127.0.0.1 port=1", "nonsense"])
def test_without_a_database_there_is_nothing_to_complete(run: Run, dsn: str) -> None:
    assert complete(run, "queue lanes explain ", INTURN_DSN=dsn) == []


def complete(run: Run, words: str, **environment: str) -> list[str]:
    ended = run(
        _QUEUE_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(words.count(" ")),
        **environment,
    )
    assert ended.stderr == ""
    return [line.removeprefix("plain,") for line in ended.stdout.split("\n") if line]
