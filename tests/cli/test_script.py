"""The installed script ends with each status, and prints what a call in process prints."""

import logging
import os
import pty
import re
import signal
import sys
import threading
import warnings
from pathlib import Path

import psycopg
import pytest

from inturn.cli.output import exit_status
from tests.cli.calling import PATIENCE, SCRIPT, run_process
from tests.cli.conftest import Answer, Run, Start, StartScript, Until
from tests.cli.engine import Engine

pytestmark = pytest.mark.landing

ODD = "from inturn import App\n\napp = App()\napp.run_worker = None\n"
WORDS: dict[int, list[str]] = {
    0: ["jobs", "count", "--lock", "busy"],
    exit_status.UNEXPECTED: ["-a", "odd:app", "worker"],
    exit_status.USAGE: ["jobs", "list", "--limit", "abc"],
    exit_status.NOT_FOUND: ["jobs", "show", "99"],
    exit_status.CONFLICT: ["queues", "resume", "default"],
    exit_status.PARTLY: ["jobs", "cancel", "--all", "--yes"],
    exit_status.UNHEALTHY: ["health", "live", "--port", "1"],
    exit_status.SCHEMA: ["jobs", "list", "--schema", "nothing"],
    exit_status.UNAVAILABLE: ["jobs", "list", "--dsn", "postgresql://127.0.0.1:1/x"],
}
CHANGES = """
import logging, os, signal, sys, threading, warnings
from inturn import App

app = App()
logging.basicConfig(level="DEBUG", force=True)
logging.getLogger("inturn").disabled = True
logging.getLogger("inturn.jobs").setLevel("CRITICAL")
os.environ["LEFT_BEHIND"] = "yes"
sys.path.append("left behind")
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
warnings.simplefilter("ignore")
os.chdir("/")
"""


@pytest.mark.parametrize("status", WORDS)
def test_the_script_ends_with_each_status_and_so_does_a_call(
    status: int, script: Run, run: Run, engine: Engine, folder: Path
) -> None:
    (folder / "odd.py").write_text(ODD)
    engine.defer(lock="busy")
    ended = []
    with psycopg.connect(engine.dsn, options="-c search_path=inturn") as user:
        user.execute("SELECT pause_lane('busy')")  # so its job cannot be cancelled
        for way in (script, run):
            engine.defer(lock="free")
            ended.append(way(*WORDS[status], INTURN_DSN=engine.dsn))
    assert ended[0].returncode == status, ended[0]
    assert ended[0] == ended[1]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("jobs list >&-", 0),
        ("jobs show 99 2>&-", exit_status.NOT_FOUND),
        ("jobs cancel --all <&-", exit_status.USAGE),
    ],
)
def test_a_stream_may_be_closed(
    words: str, status: int, engine: Engine, start_script: StartScript
) -> None:
    engine.defer()
    process = start_script(["bash", "-c", f"exec {SCRIPT} {words}"], INTURN_DSN=engine.dsn)
    assert process.wait(PATIENCE) == status


def test_what_the_output_cannot_encode_is_escaped(script: Run, dsn: str) -> None:
    words = ("migrate", "--plan", "--schema", "日")
    ended = script(*words, INTURN_DSN=dsn, PYTHONIOENCODING="latin-1")
    assert ended.stdout.startswith(r"schema \u65e5: revision none")


def test_the_script_asks_on_a_terminal_and_so_does_a_call(
    engine: Engine, script: Run, answer: Answer, folder: Path
) -> None:
    engine.defer()
    words = ["jobs", "cancel", "--all"]
    person, terminal = pty.openpty()
    os.write(person, b"n\n")
    declined = run_process(*words, folder=folder, env={"INTURN_DSN": engine.dsn}, stdin=terminal)
    os.close(person)
    os.close(terminal)
    assert declined.returncode == exit_status.DECLINED, declined
    assert declined == answer("n", *words)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_script_with_its_status(
    number: signal.Signals, start: Start, engine: Engine, until: Until
) -> None:
    """A command that waits for a lock does not keep you waiting."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(engine.dsn, options="-c search_path=inturn") as user:
        user.execute("LOCK TABLE jobs")
        command = start("jobs", "list", INTURN_DSN=engine.dsn)
        until(lambda: engine.query(f"{waiting} AND datname = current_database()"))
        command.send_signal(number)
        assert command.wait(PATIENCE) == 128 + number


def test_each_status_that_the_page_lists_is_here() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d+) \|", page, re.M)
    others = {exit_status.DECLINED, exit_status.INTERRUPTED, 128 + signal.SIGTERM}
    assert {*map(int, listed)} == WORDS.keys() | others


def test_a_call_leaves_this_process_as_it_was(queue: Run, folder: Path) -> None:
    def state() -> list[object]:
        loggers = [logging.getLogger(name) for name in ("", "inturn", "inturn.jobs")]
        return [
            *((logger.level, logger.disabled, logger.handlers) for logger in loggers),
            (dict(os.environ), Path.cwd(), sys.argv, sys.path, sys.stdin, sys.stdout, sys.stderr),
            {number: signal.getsignal(number) for number in signal.valid_signals()},
            (warnings.filters[:], threading.enumerate(), "changes" in sys.modules),
        ]

    (folder / "changes.py").write_text(CHANGES)
    before = state()
    for _ in range(2):  # the second time it is imported again
        ended = queue("-a", "changes:app", "worker", "--one-shot")
        assert (ended.returncode, "DEBUG:" in ended.stderr) == (0, True), ended
        assert state() == before
