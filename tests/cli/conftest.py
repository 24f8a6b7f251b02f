"""Fixtures that run `queue` in a folder with tasks."""

import os
import pty
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil
import psycopg
import pytest

from inturn import App
from inturn.worker.signals import INSTANT
from tests.cli.calling import PATIENCE, SCRIPT, Ended, clean, invoke, run_process
from tests.cli.engine import Engine
from tests.waiting import wait_until

if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # Under nohup, the programs that we start would ignore SIGHUP too.
    signal.signal(signal.SIGHUP, lambda *_: None)

TASKS = """
import asyncio
import time
from pathlib import Path

from inturn import App

app = App()

if Path("patient").exists():  # else a busy machine could be killed 4 s after its second signal
    from inturn.worker import signals

    signals.PATIENCE = 30.0


@app.task
def touch(name: str) -> None:
    Path(name).touch()


@app.task
def work(until: str) -> None:
    Path("working").touch()
    while not Path(until).exists():
        time.sleep(0.01)


@app.task
async def stay() -> None:
    Path("staying").touch()
    await asyncio.sleep(3600)
"""

Until = Callable[[Callable[[], object]], None]


class Run(Protocol):
    def __call__(self, *arguments: str, **environment: str) -> Ended: ...


class Answer(Protocol):
    def __call__(self, words: str, *arguments: str) -> Ended: ...


class Start(Protocol):
    def __call__(self, *arguments: str, **environment: str) -> subprocess.Popen[str]: ...


class StartScript(Protocol):
    def __call__(self, command: list[str], **environment: str) -> subprocess.Popen[str]: ...


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with tasks in it.

    The embedded server of root runs as an account that cannot enter pytest's tmp_path.
    """
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        Path(name, "tasks.py").write_text(TASKS)
        yield Path(name)


@pytest.fixture
def run(folder: Path) -> Run:
    """Run `queue` to its end, in this process."""
    return lambda *arguments, **environment: invoke(*arguments, folder=folder, env=environment)


@pytest.fixture
def queue(run: Run, dsn: str) -> Run:
    """Run `queue` on the test's database, in this process."""
    return lambda *arguments, **environment: run(*arguments, INTURN_DSN=dsn, **environment)


@pytest.fixture
def script(folder: Path) -> Run:
    """Run `queue` to its end, as a process."""
    return lambda *arguments, **environment: run_process(*arguments, folder=folder, env=environment)


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    engine = Engine(dsn)
    yield engine
    engine.close()


@pytest.fixture
def answer(folder: Path, dsn: str) -> Answer:
    """Run `queue` on the test's database, with a terminal that gives an answer."""

    def answer(words: str, *arguments: str) -> Ended:
        person, terminal = pty.openpty()
        os.write(person, f"{words}\n".encode())
        try:
            with open(terminal) as stdin:
                return invoke(*arguments, folder=folder, env={"INTURN_DSN": dsn}, stdin=stdin)
        finally:
            os.close(person)

    return answer


@pytest.fixture
def start(start_script: StartScript) -> Start:
    """Start `queue`."""
    return lambda *arguments, **environment: start_script([str(SCRIPT), *arguments], **environment)


@pytest.fixture
def start_script(folder: Path) -> Iterator[StartScript]:
    """Start a program. Its output is in the files `out` and `log` of the folder."""
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
        with (folder / "out").open("w") as out, (folder / "log").open("w") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=clean(environment),
                stdout=out,
                stderr=log,
                text=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(
                recursive=True
            ):  # one that a task keeps would stay
                child.kill()
        process.kill()
        process.wait()


@pytest.fixture
def until(folder: Path) -> Until:
    def wait(condition: Callable[[], object]) -> None:
        logs = folder.glob("log")
        wait_until(condition, PATIENCE, lambda: {log.name: log.read_text() for log in logs})

    return wait


@pytest.fixture
def log(folder: Path) -> Callable[[], str]:
    return lambda: (folder / "log").read_text()


def statuses(dsn: str) -> list[str]:
    """Return the status of each job, in the order of their ids."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT status::text FROM inturn.all_jobs ORDER BY id")
        return [status for (status,) in rows]


def defer(dsn: str, task: str, **arguments: object) -> None:
    with App(dsn).open() as app:
        app.configure_task(task).defer(**arguments)


def next_instant() -> None:
    """Wait until a signal counts as the next one. Signals in one instant count as one."""
    time.sleep(2 * INSTANT)
