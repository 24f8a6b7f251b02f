"""Each defect that was found from outside is a test here."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from tests.cli.calling import SCRIPT, clean

ROOT = Path(__file__).parents[2]


class Start(Protocol):
    def __call__(self, *arguments: str) -> subprocess.Popen[str]: ...


@pytest.fixture
def task_log(tmp_path: Path) -> Callable[[], list[str]]:
    """Return the words that the tasks of field_app have written."""
    (tmp_path / "task.log").touch()
    return lambda: (tmp_path / "task.log").read_text().split()


@pytest.fixture
def worker(run_python: Start) -> Start:
    """Start a worker process. Read its output from its `stderr` when it has ended."""
    return partial(run_python, str(SCRIPT), "-a", "tests.field.field_app:app", "worker")


@pytest.fixture
def run_python(dsn: str, tmp_path: Path, task_log: object) -> Iterator[Start]:
    """Start Python, with the test's database and the log of field_app's tasks."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        environment = clean(
            {"INTURN_DSN": dsn, "FIELD_LOG": str(tmp_path / "task.log"), "PYTHONPATH": str(ROOT)}
        )
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()
