"""The measurements of `queue bench`: jobs that do nothing, in a separate schema."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from secrets import token_hex
from statistics import quantiles
from typing import Any

from psycopg.sql import SQL, Identifier

from inturn.app import App
from inturn.database.connector import Connector
from inturn.database.drive import translate_errors
from inturn.schema.migrate import migrate
from inturn.tasks.task import Task

LANES = 1_000
ROUND_TRIPS = 200
MEASUREMENTS = 8


@dataclass(frozen=True, slots=True)
class Measured:
    what: str
    unit: str  # "jobs/s" or "ms"
    value: float


@contextmanager
def scratch(connector: Connector) -> Iterator[App]:
    """Yield an app in a new schema, and drop the schema at the end."""
    own = connector.at(schema=f"inturn_bench_{token_hex(4)}")
    with translate_errors(), connector.connect("bench") as connection:
        try:
            migrate(own.dsn, schema=own.schema)
            yield App(connector=own)
        finally:
            connection.execute(
                SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(own.schema))
            )


def measure(app: App, share: float) -> Iterator[Measured]:
    """Yield the measurements in order, with a `share` of the full number of jobs."""

    @app.task(name="bench")
    async def nothing(number: int) -> None: ...

    def number(full: int) -> int:
        return max(10, round(full * share))

    yield _round_trip(app)
    yield _one_by_one(app, nothing, number(1_000))
    yield from _bulk_and_run(app, nothing, number(20_000))
    yield _run_lanes(app, nothing, number(10_000), LANES, f"run jobs of {LANES:,} locks")
    yield _run_lanes(app, nothing, number(1_000), 1, "run jobs of one lock")
    yield from _idle(app, number(100))


def _round_trip(app: App) -> Measured:
    with app.connector.connect("bench") as connection:
        start = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            connection.execute("SELECT 1")
        each = (time.perf_counter() - start) / ROUND_TRIPS
    return Measured("round trip to the server", "ms", each * 1000)


def _one_by_one(app: App, task: Task[..., Any], count: int) -> Measured:
    with app.open():
        start = time.perf_counter()
        for number in range(count):
            task.defer(number)
        rate = count / (time.perf_counter() - start)
    _run(app)
    return Measured("defer one by one, each committed", "jobs/s", rate)


def _bulk_and_run(app: App, task: Task[..., Any], count: int) -> Iterator[Measured]:
    with app.open():
        start = time.perf_counter()
        task.batch_defer(*({"number": number} for number in range(count)))
        deferred = count / (time.perf_counter() - start)
    yield Measured("defer in one call", "jobs/s", deferred)
    yield Measured("run jobs without a lock", "jobs/s", count / _run(app))


def _run_lanes(app: App, task: Task[..., Any], count: int, lanes: int, what: str) -> Measured:
    jobs = [task.configure(lock=f"lane {n % lanes}").make_new_job(number=n) for n in range(count)]
    with app.open():
        app.job_manager.batch_defer_jobs(jobs)
    return Measured(what, "jobs/s", count / _run(app))


def _run(app: App) -> float:
    """Run a worker, and return the seconds until all jobs have ended."""
    start = time.perf_counter()
    app.run_worker(concurrency=100, wait=False, install_signal_handlers=False)
    return time.perf_counter() - start


def _idle(app: App, count: int) -> Iterator[Measured]:
    started: asyncio.Queue[float] = asyncio.Queue()

    @app.task(name="bench latency")
    async def note() -> None:
        started.put_nowait(time.perf_counter())

    async def list_waits() -> list[float]:
        async with app.open_async(), _worker(app):
            waits = []
            for _ in range(count):
                before = time.perf_counter()
                await note.defer_async()
                waits.append((await started.get() - before) * 1000)
                await asyncio.sleep(0.01)  # let the worker fall asleep
            return waits

    cuts = quantiles(asyncio.run(list_waits()), n=100)
    yield Measured("defer to start when idle, p50", "ms", cuts[49])
    yield Measured("defer to start when idle, p99", "ms", cuts[98])


@asynccontextmanager
async def _worker(app: App) -> AsyncIterator[None]:
    worker = asyncio.create_task(app.run_worker_async(concurrency=1, install_signal_handlers=False))
    try:
        yield
    finally:
        worker.cancel()
        await asyncio.wait([worker])
