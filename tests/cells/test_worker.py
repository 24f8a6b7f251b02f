"""`queue worker --cells`: a process serves one cell, and a program of your own may serve several."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inturn import App
from tests.cells.conftest import COUNT
from tests.cells.test_app import LOCKS
from tests.cells.test_commands import Queue, queue
from tests.cli.calling import Ended, invoke, run_process
from tests.waiting import wait_until

__all__ = ["queue"]
TASKS = """
from inturn import App

app = App()


@app.task(name="shop.pay")
def pay() -> None: ...
"""

PROGRAM = """
import asyncio

from shop import app


async def serve() -> None:
    async with app.open_async():
        await asyncio.gather(*(app.cell(n).run_worker_async() for n in (0, 3, 5)))


asyncio.run(serve())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(TASKS)
    return tmp_path


def refuse(queue: Queue, folder: Path, *words: str) -> str:
    env = {"INTURN_CELLS": str(queue.file)}
    done: Ended = invoke("-a", "shop:app", "worker", *words, folder=folder, env=env)
    assert done.returncode == 2, done.output
    return done.stderr


@pytest.mark.landing
def test_each_process_serves_one_of_the_cells(queue: Queue, app: App, folder: Path) -> None:
    jobs = [app.configure_task("shop.pay", lock=lock).defer() for lock in LOCKS]
    env = {"INTURN_CELLS": str(queue.file), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    ended = run_process(
        "-a", "shop:app", "worker", "-1", "--cells", "0,5-6", folder=folder, env=env
    )
    assert ended.returncode == 0, ended.output
    names = set(re.findall(r"worker.started: \S+-(\d-cell\d) ", ended.output))
    assert names == {"1-cell0", "2-cell5", "3-cell6"}
    done = [app.job_manager.get_job_status(id) == "succeeded" for id in jobs]
    assert [cell for cell in range(COUNT) if done[cell]] == [0, 5, 6]
    env["INTURN_WORKER_CELLS"] = "3"
    alone = run_process("-a", "shop:app", "worker", "-1", folder=folder, env=env)
    assert alone.returncode == 0, alone.output
    assert app.job_manager.get_job_status(jobs[3]) == "succeeded"


def test_a_signal_ends_all_workers_of_a_process(queue: Queue, folder: Path) -> None:
    """Whichever of them ends first: the handlers of the others stay, and the usual come back."""
    env = {**os.environ, "INTURN_CELLS": str(queue.file)}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=folder, env=env) as program:
        try:
            wait_until(lambda: len(queue.records("workers", "list")) == 3)
            program.send_signal(signal.SIGTERM)
            assert program.wait(20) == 0
        finally:
            program.kill()
    assert queue.records("workers", "list") == []


def test_mistakes_are_told(queue: Queue, app: App, folder: Path) -> None:
    assert "has 8 cells. To serve all from this machine, add --cells all" in refuse(queue, folder)
    assert "--cells 8: the cells of the app are 0 to 7" in refuse(queue, folder, "--cells", "8")
    far = refuse(queue, folder, "--cells", "0-99999999999")
    assert "--cells 0-99999999999: the cells of the app are 0 to 7" in far
    assert "--cells x: write all, 3, 0,2 or 0-3" in refuse(queue, folder, "--cells", "x")
    away = refuse(queue, folder, "--cells", "1", "--dsn", "postgresql://other/db")
    assert "The app has cells, which a DSN or a schema cannot replace. Name one: --cell 3" in away
    plain = invoke("-a", "shop:app", "worker", "--cells", "all", folder=folder)
    assert "The app has no cells. Omit --cells" in plain.stderr
