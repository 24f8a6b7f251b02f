"""Mistakes on the command line are refused at once, in one voice, with a guess at what was meant."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest

from inturn.cli import queue as program
from tests.cli.calling import invoke
from tests.cli.conftest import Run
from tests.cli.test_help import words_of_all

WORKER = ["-a", "tasks:app", "worker"]
NUMBERS = [
    *([*WORKER, option, value]
      for option in ("--grace", "--poll", "--abort-job-polling-interval", "--heartbeat",
                     "--stalled-after", "--db-grace")
      for value in ("-1", "nan", "inf", "-inf", "1e400", "soon", "")),
    *([*WORKER, option, "0"] for option in ("--poll", "--abort-job-polling-interval", "--heartbeat")),
    *([*WORKER, option, value]
      for option in ("--concurrency", "--processes", "--max-lost-attempts")
      for value in ("-1", "0", "1.5", "nan", "many")),
    ["locks", "wait", "file:///x", "--timeout", "nan"],
    ["locks", "run", "file:///x", "--ttl", "0", "--", "true"],
    ["jobs", "list", "--limit", "abc"],
    ["jobs", "show", "0"],
    ["schedules", "next", "--count", "0"],
    ["defer", "t", "--priority", "high"],
    *(["jobs", "list", option, str(2**63)] for option in ("--batch", "--before-id")),
    ["verify", "--after", str(2**63)],
    ["defer", "t", "--after", str(2**63)],
    *([*words, "366001d"] for words in (["jobs", "list", "--older-than"], ["verify", "--since"])),
]  # fmt: skip


@pytest.mark.parametrize("words", NUMBERS, ids=" ".join)
def test_a_bad_number_is_refused_before_anything_starts(words: list[str]) -> None:
    ended = invoke(*words)
    assert ended.returncode == 2, ended.output
    assert "error: Invalid value for" in ended.stderr
    assert "unexpected" not in ended.stderr
    assert "integer" not in ended.stderr


@pytest.mark.parametrize(
    "words",
    [["jobs", "list", "--lock", "\udcff"], ["jobs", "list", "--dsn", "\udcff"]],
    ids=["of a filter", "of the database"],
)
def test_bytes_that_are_no_text_are_refused(words: list[str], queue: Run) -> None:
    ended = queue(*words)
    assert ended.returncode == 2
    assert ended.stderr == r"error: '\udcff' is not text in UTF-8" + "\n"


@pytest.mark.parametrize("name", ["", "x" * 64, "a b"], ids=["empty", "long", "of two words"])
def test_the_name_of_a_queue_is_checked(name: str, queue: Run) -> None:
    ended = queue("queues", "pause", name)
    assert ended.returncode == 2
    assert ended.stderr == "error: queue: give 1 to 63 letters, digits, and _ . : -\n"


@pytest.mark.parametrize("year", ["0001", "9999"])
def test_a_time_that_no_clock_shows_is_refused(year: str) -> None:
    ended = invoke("jobs", "delete", "--before", f"{year}-01-01T00:00:00+14:00")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: --before: {year}-01-01 00:00:00+14:00 is ")


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["work"], "worker"),
        (["lane", "list"], "lanes"),
        (["lanes", "explian", "a"], "explain"),
        (["jobs", "list", "--limt", "3"], "--limit"),
        (["-a", "tasks:app", "defer", "tasks.tuch"], "tasks.touch"),
        (["-a", "tasks:ap", "worker"], "tasks:app"),
        (["-a", "taskss:app", "worker"], "tasks:app"),
        (["-a", "tasks", "worker"], "tasks:app"),
        (["-a", "tasks.py", "worker"], "tasks:app"),
        (["-a", "tasks.py:app", "worker"], "tasks:app"),
        (["-a", "tasks:app", "defer", "stay"], "tasks.stay"),
    ],
)  # fmt: skip
def test_a_mistyped_name_is_guessed(words: list[str], guess: str, run: Run) -> None:
    ended = run(*words)
    assert ended.returncode in (2, 3)
    assert f"Did you mean '{guess}'?" in ended.stderr


def test_a_name_like_no_other_is_not_guessed(run: Run) -> None:
    refused = run("zzz")
    assert "'zzz'" in refused.stderr
    assert "mean" not in refused.stderr


def test_no_app_is_guessed_that_is_not_there(run: Run, folder: Path) -> None:
    (folder / "taskz.py").write_text("import inturn\n\n\ndef make(app=inturn.App()): ...\n")
    (folder / "more.py").write_text("from inturn import App\n\napp = App()\n")
    assert "mean" not in run("-a", "taskx:ap", "worker").stderr
    assert "mean" not in run("-a", "pk.mod:app", "worker").stderr
    assert "mean" not in run("-a", "taskz", "worker").stderr


@pytest.mark.parametrize("path", [".", "./", "..", ":", "x" * 300], ids=lambda path: path[:3])
def test_what_cannot_be_an_app_is_refused_in_plain_words(path: str, run: Run) -> None:
    refused = run("-a", path, "worker")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ")
    assert "unexpected" not in refused.stderr


@pytest.mark.parametrize("words", [[], ["jobs"]], ids=["queue", "queue jobs"])
def test_a_command_that_is_not_complete_shows_the_help_once(words: list[str], run: Run) -> None:
    shown = run(*words)
    assert shown.returncode == 2
    assert shown.stderr == run(*words, "--help").stdout


@pytest.mark.parametrize("option", ["--dsn", "--schema", "-o", "--json"])
def test_an_option_before_its_command_is_told_where_it_belongs(option: str, run: Run) -> None:
    words = [option] if option == "--json" else [option, "x"]
    refused = run(*words, "jobs", "list")
    assert refused.returncode == 2
    assert f"Give {option} after the command." in refused.stderr


def test_the_advice_about_one_of_many_jobs_names_the_database_too(run: Run, dsn: str) -> None:
    ended = run("jobs", "retry", "99", "--dsn", dsn, "--schema", "inturn")
    assert ended.returncode == 3
    assert f"queue jobs list --dsn {shlex.quote(dsn)} --schema inturn" in ended.stderr


def test_a_refused_option_of_the_worker_is_called_as_it_was_given(queue: Run) -> None:
    refused = queue(*WORKER, "--heartbeat", "60", "--no-wait").stderr
    assert refused.startswith("error: --stalled-after: 30.0 seconds: must be at least three")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--queues", ["--queues", "no name"]),
        ("--keep-history", ["--keep-history", "0d"]),
    ],
)
def test_an_option_that_the_worker_itself_refuses_is_named(
    option: str, words: list[str], queue: Run
) -> None:
    assert queue(*WORKER, *words, "--no-wait").stderr.startswith(f"error: {option}: ")


def test_yesterdays_address_of_queue_dev_is_recognized(run: Run) -> None:
    dsn = "postgresql://postgres@/postgres?host=/tmp/inturn-dev-gone&port=5432"
    said = run("jobs", "list", INTURN_DSN=dsn).stderr
    assert "Start `queue dev` again." in said
    for folder in ("is-gone", "inturn-is-gone", "inturn"):
        other = run("jobs", "list", INTURN_DSN=f"postgresql:///x?host=/tmp/{folder}").stderr
        assert "No such file" in other
        assert "queue dev" not in other


def test_all_errors_begin_alike_and_say_where_the_help_is(run: Run) -> None:
    for words in (["jobs", "list", "--limit", "abc"], ["wroker"], ["worker"], ["doctor"]):
        said = run(*words).stderr
        assert re.search(r"^error: ", said, re.MULTILINE), said
        assert "Error:" not in said
    assert "For help, run: queue jobs list --help" in run("jobs", "list", "--limit", "0").stderr


@pytest.mark.parametrize("words", words_of_all(), ids=" ".join)
def test_no_help_shows_the_name_of_a_type(words: list[str]) -> None:
    command: click.Command = program
    for word in words:
        command = (
            import_module(f"inturn.cli.commands.{word}").command
            if command is program
            else getattr(command, "commands")[word]  # noqa: B009 (only groups have it)
        )
    text = command.get_help(click.Context(command, info_name=" ".join(["queue", *words])))
    assert not re.findall(r"\b(?:INTEGER|FLOAT|RANGE|BOOLEAN|NUMBER)\b|-[a-z-]+ TEXT\b", text)
    assert max(map(len, text.splitlines())) <= 80


def test_colour_of_errors_is_for_terminals_only(run: Run) -> None:
    assert "\x1b" not in run("wroker").stderr
