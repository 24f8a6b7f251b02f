"""Workers and a producer of several cells are killed. The judge sees all lanes of all cells."""

import signal
from pathlib import Path

import psycopg
import pytest

from inturn import App
from inturn.cells.connector import Cells
from inturn.cells.creating import create_cells
from inturn.tasks.lanes import cell_of
from tests.cells.test_commands import SERVER
from tests.evidence.events import History, Tail
from tests.evidence.judge import check, describe
from tests.evidence.record import tell_fence
from tests.stress.crash_app import HEARTBEAT, STALLED
from tests.stress.test_crash import Process, has_ended, is_stopped_in_a_lane_job, spawn
from tests.waiting import wait_until

pytestmark = pytest.mark.landing
CELLS, LANES, JOBS, FREE = 3, [f"lane{n}" for n in range(30)], 30, 100
LIMIT = 240  # seconds; only keeps a failing test from hanging
MAP = "0b31f6a4-3c47-4b6b-9d7e-9c1a9f0f7a51"
FINAL = """
SELECT args->>'op', (args->>'index')::int, id, fence, status::text FROM {}.finished_jobs
"""


@pytest.fixture
def cells(empty: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cells:
    """Three cells on two servers, for all processes."""
    file = tmp_path / "cells.toml"
    text = f'map = "{MAP}"\nof = {CELLS}\n'
    file.write_text(text + SERVER.format(empty[0], [0, 2]) + SERVER.format(empty[1], [1]))
    monkeypatch.setenv("INTURN_CELLS", str(file))
    cells = Cells(file)
    list(create_cells(cells))
    return cells


def test_kills_lose_nothing_and_every_lane_of_every_cell_stays_in_order(
    cells: Cells, tmp_path: Path
) -> None:
    folder = tmp_path / "history"
    folder.mkdir()
    history = History(folder, "crash", "conductor")
    history.write("settings", excuse=STALLED - 2 * HEARTBEAT)
    run(cells, folder, history)
    for home in cells.homes:
        with psycopg.connect(home.dsn) as connection:
            asked = FINAL.format(home.schema).encode()
            for op, index, id, fence, status in connection.execute(asked):
                told = tell_fence(id, fence)
                history.write("final", job=[op, index], fence=told, status=status)
    history.close()
    verdict = check(folder)
    assert verdict.word == "valid", describe(verdict)
    assert verdict.counts["a worker was killed in the middle of a job"]
    assert len(verdict.evidence.finals) > JOBS * len(LANES) + FREE, "and those of the killed one"
    assert {cell_of(lane, CELLS) for lane in LANES} == set(range(CELLS))
    assert not count(cells, "lanes")
    app = App()
    with app.open():
        assert app.verify().is_kept


def run(cells: Cells, folder: Path, history: History) -> None:
    """Run two workers in each cell. Kill a producer, and two workers in jobs of the next one."""
    tail, lanes = Tail(folder), ",".join(LANES)
    producer = spawn(folder, "", "producer.0", "produce", lanes, "1000", "1000", "0")
    names = [(f"worker.{cell}.{n}", str(cell)) for cell in range(CELLS) for n in range(2)]
    workers = {who: spawn(folder, "", who, "work", cell) for who, cell in names}
    try:
        wait_until(lambda: has_called(tail, "producer.0", 50), LIMIT)
        kill(producer, "producer.0", history)
        producer = spawn(folder, "", "producer.1", "produce", lanes, str(JOBS), str(FREE), "1")
        for who, after in (("worker.0.0", 200), ("worker.1.1", 400)):
            wait_until(lambda: has_ended(tail, after), LIMIT)  # noqa: B023
            wait_until(lambda: is_stopped_in_a_lane_job(tail, who, workers[who]), LIMIT)  # noqa: B023
            kill(workers.pop(who), who, history)
        assert producer.wait(LIMIT) == 0
        wait_until(lambda: not count(cells, "jobs"), LIMIT)
        for worker in workers.values():
            worker.send_signal(signal.SIGTERM)
        assert {worker.wait(LIMIT) for worker in workers.values()} == {0}
    finally:
        for process in (producer, *workers.values()):
            process.kill()
            process.wait()


def has_called(tail: Tail, who: str, times: int) -> bool:
    tail.look()
    return sum(event.name == "call" and event.who == who for event in tail.events) >= times


def kill(victim: Process, who: str, history: History) -> None:
    victim.kill()
    assert victim.wait() == -signal.SIGKILL
    history.write("killed", victim=who)


def count(cells: Cells, table: str) -> int:
    """Return the rows of a table in all cells."""
    found = 0
    for home in cells.homes:
        with psycopg.connect(home.dsn) as connection:
            asked = f"SELECT count(*) FROM {home.schema}.{table}"
            [(rows,)] = connection.execute(asked.encode()).fetchall()
            found += rows
    return found
