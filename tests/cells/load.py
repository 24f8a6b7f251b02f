"""A producer of five lanes and a worker, which run while their cell moves, and the judgement."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg

from inturn import App, JobContext
from inturn.cells.connector import Cells
from inturn.cells.creating import create_cells
from inturn.errors import DatabaseUnavailable
from inturn.tasks.lanes import cell_of
from tests.waiting import wait_until

MAP = """\
# Two cells. Ask ops before you change this.
map = "0b31f6a4-3c47-4b6b-9d7e-9c1a9f0f7a51"
of = 2
[[servers]]
dsn = "{}"  # the shop
cells = [0, 1]
"""
CELL = 1
CONNECTED = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'inturn pool'
"""
LANES = [lock for n in range(40) if cell_of(lock := f"order:{n}", 2) == CELL][:5]


def make_cells(folder: Path, dsn: str) -> Cells:
    """Create two cells in a database, and their map."""
    file = folder / "cells.toml"
    file.write_text(MAP.format(dsn))
    cells = Cells(file)
    list(create_cells(cells))
    return cells


@contextmanager
def working(
    app: App, ended: list[BaseException], queues: list[str] | None = None
) -> Iterator[Thread]:
    """Run a worker of the cell in a thread. Note the error that ends it."""

    async def work() -> None:
        try:
            await app.cell(CELL).run_worker_async(
                concurrency=5,
                install_signal_handlers=False,
                fetch_job_polling_interval=1.0,
                queues=queues,
                wait=True,  # whatever the app's default
            )
        except asyncio.CancelledError as error:
            ended.append(error)
        except Exception as error:
            inner: BaseException = error
            while isinstance(inner, BaseExceptionGroup):
                inner = inner.exceptions[0]
            ended.append(inner)

    loop = asyncio.new_event_loop()
    running = loop.create_task(work())
    thread = Thread(target=loop.run_until_complete, args=[running], name="worker")
    thread.start()
    try:
        yield thread
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join()
        loop.close()


class Load:
    """What was acknowledged to the producer, and what has run."""

    def __init__(self, file: Path) -> None:
        self.app = App(cells=file)
        for home in self.app.connector.homes:
            home._timeout = 60.0  # to follow the cell, although the machine may stall
        self.given: list[tuple[str, int]] = []
        self.doubtful: set[tuple[str, int]] = set()  # perhaps stored, because the answer was lost
        self.refused: list[Exception] = []
        self.runs: list[tuple[str, int, int]] = []
        self.ended: list[BaseException] = []
        self._is_over = Event()

        @self.app.task(name="step", pass_context=True)
        def step(context: JobContext, lane: str, n: int) -> None:
            self.runs.append((lane, n, context.job.fence or 0))
            time.sleep(0.002)

        self.step = step

    @contextmanager
    def running(self) -> Iterator[None]:
        producer = Thread(target=self._produce, name="producer")
        with working(self.app, self.ended):
            producer.start()
            try:
                wait_until(lambda: len(self.runs) > 20)
                yield
                self._is_over.set()
                producer.join()
                wait_until(lambda: self._count_missing() == 0, 60, self._explain)
            finally:
                self._is_over.set()
                producer.join()

    def _produce(self) -> None:
        with self.app.open():
            n = 0
            while not self._is_over.is_set():
                for lane in LANES:
                    self._defer(lane, n)
                n += 1

    def _defer(self, lane: str, n: int) -> None:
        while True:
            try:
                self.step.configure(lock=lane).defer(lane=lane, n=n)
            except DatabaseUnavailable as error:
                self.refused.append(error)
                if error.outcome_unknown:
                    self.doubtful.add((lane, n))
                    return
                time.sleep(0.1)
            else:
                self.given.append((lane, n))
                time.sleep(0.002)
                return

    def _count_missing(self) -> int:
        return len(set(self.given) - {(lane, n) for lane, n, _ in self.runs})

    def _explain(self) -> str:
        return f"{self._count_missing()} of {len(self.given)} jobs have not run"

    def judge(self) -> None:
        """Check that nothing is lost, nothing ran twice, and each lane ran in order."""
        lanes: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for lane, n, fence in self.runs:
            lanes[lane].append((n, fence))
        assert [str(error) for error in self.ended] == [""], "the worker was cancelled"
        given = set(self.given)
        ran = [(lane, n) for lane, n, _ in self.runs]
        assert len(ran) == len(set(ran)), "a job ran twice"
        assert given <= set(ran) <= given | self.doubtful
        for seen in lanes.values():
            assert seen == sorted(seen), "a lane is out of order"
            fences = [fence for _, fence in seen]
            assert fences == sorted(set(fences)), "fences do not rise"
        with self.app.open():
            verdict = self.app.verify()
            assert verdict.is_kept, verdict


def query(dsn: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Run SQL and commit it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(statement.encode(), parameters or None)
        return found.fetchall() if found.description else []


def cells_of(app: App) -> Cells:
    assert isinstance(app.connector, Cells)
    return app.connector


def name_again(map_file: Path, dsn: str) -> None:
    """Write the address of the server in another way, so that its cells seem to have moved."""
    map_file.write_text(map_file.read_text().replace(dsn, f"{dsn} application_name='inturn new'"))
