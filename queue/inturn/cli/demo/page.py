"""One round of the demo: four alphabets and four worker processes, one of which may be killed."""

import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from string import ascii_lowercase
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from inturn import App
from inturn.operations import Operation, Statement, ask

WORKERS = ("worker 1", "worker 2", "worker 3", "worker 4")
ROWS = range(1, 5)
KILL_AFTER = 8  # letters in a row
ROUND_SECONDS = 60

TABLE = "CREATE TABLE letters (n bigserial PRIMARY KEY, page int, row int, letter text)"
LETTERS = "SELECT row, letter FROM letters WHERE page = %s ORDER BY n"
READY = "SELECT count(*) FROM {schema}.worker_status"


@dataclass
class DemoPage:
    """The letters that a round has written so far, and what each worker is writing."""

    number: int
    has_locks: bool
    has_a_death: bool = False
    rows: dict[int, list[str]] = field(default_factory=lambda: {row: [] for row in ROWS})
    holding: dict[str, dict[int, str]] = field(default_factory=dict)  # by worker and row
    killed: str | None = None  # the worker
    began: float | None = None
    ended: float | None = None

    @property
    def seconds(self) -> float:
        return 0.0 if self.began is None else (self.ended or time.monotonic()) - self.began

    @property
    def misplaced(self) -> int:
        return sum(
            letter != place
            for letters in self.rows.values()
            for letter, place in zip(letters, ascii_lowercase, strict=False)
        )

    @property
    def in_order(self) -> bool:
        return all(letters == list(ascii_lowercase) for letters in self.rows.values())

    @property
    def written(self) -> int:
        return sum(map(len, self.rows.values()))

    def show(self, letters: Sequence[tuple[int, str]]) -> None:
        self.rows = {row: [letter for own, letter in letters if own == row] for row in ROWS}
        for held in self.holding.values():
            for row, letter in [*held.items()]:
                if letter in self.rows[row]:
                    del held[row]
        if self.written >= len(ROWS) * len(ascii_lowercase):
            self.ended = time.monotonic()


class Workers:
    """The worker processes. Their output goes to the current page."""

    def __init__(self, processes: dict[str, Process]) -> None:
        self._processes = processes
        self.page: DemoPage | None = None

    async def follow(self, name: str) -> None:
        """Read a worker's output until it ends."""
        output = self._processes[name].stdout
        assert output is not None
        rest = ""
        async for text in TextReceiveStream(output):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                self._note(name, *line.split())

    def _note(self, name: str, number: str, letter: str) -> None:
        page, row = self.page, int(number)
        if page is None or page.killed == name:
            return
        page.holding.setdefault(name, {})[row] = letter
        if page.has_a_death and page.killed is None and len(page.rows[row]) >= KILL_AFTER:
            self._processes[name].kill()
            del page.holding[name]
            page.killed = name

    async def fill(self, page: DemoPage, app: App) -> None:
        """Defer the jobs of a page, and return when all are done."""
        self.page = page
        page.began = time.monotonic()
        jobs = [(letter, row) for letter in ascii_lowercase for row in ROWS]
        await app.job_manager.batch_defer_jobs_async(
            [
                app.configure_task(
                    "write", lock=f"order:{row}" if page.has_locks else None
                ).make_new_job(page=page.number, row=row, letter=letter)
                for letter, row in jobs
            ]
        )
        with anyio.fail_after(ROUND_SECONDS):
            while page.ended is None:
                page.show(await app.connector.run_async(_letters(page.number)))
                await anyio.sleep(0.02)


@asynccontextmanager
async def start_workers(app: App, dsn: str) -> AsyncIterator[Workers]:
    """Start the worker processes, and kill them at the end, when their jobs are done."""
    processes: dict[str, Process] = {}
    try:
        for name in WORKERS:
            processes[name] = await anyio.open_process(
                [sys.executable, "-m", "inturn.cli.demo.worker", dsn, name],
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
                start_new_session=True,  # Ctrl-C is for us
            )
        workers = Workers(processes)
        async with anyio.create_task_group() as readers:
            for name in WORKERS:
                readers.start_soon(partial(workers.follow, name))
            with anyio.fail_after(ROUND_SECONDS):
                while await app.connector.run_async(ask(int, READY)) < len(WORKERS):  # noqa: ASYNC110 (no event tells)
                    await anyio.sleep(0.02)
            yield workers
            readers.cancel_scope.cancel()
    finally:
        for process in processes.values():
            if process.returncode is None:
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.aclose()


def _letters(page: int) -> Operation[list[tuple[int, str]]]:
    rows = yield Statement(LETTERS, [page])
    return [(row, letter) for row, letter in rows]
