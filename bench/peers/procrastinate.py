"""procrastinate: its locks keep the jobs in order, and it fetches jobs one at a time."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.jobs import Job, Load
from bench.peers.adapter import Run, main, python_peer

CONCURRENCY = 4  # more is slower, because one loop fetches all jobs

PEER = python_peer(
    "procrastinate",
    "procrastinate",
    "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
    module="bench.peers.procrastinate",
    entry="from procrastinate import App",
    settings=f"concurrency {CONCURRENCY} (hot lane: 1, otherwise each job waits for the next "
    "poll), uvloop, sync connector to enqueue",
)


def _configured(task: Any, job: Job) -> Any:
    queue = {"queue": job.queue} if job.queue else {}
    return task.configure(lock=job.lane, priority=job.priority, **queue)


class Producer:
    def __init__(self, app: Any, task: Any) -> None:
        self._manager, self._task = app.job_manager, task

    async def one(self, job: Job) -> object:
        return _configured(self._task, job).defer(**job.args)

    def prepare(self, batch: list[Job]) -> Any:
        return [_configured(self._task, job).make_new_job(**job.args) for job in batch]

    async def bulk(self, prepared: Any) -> object:
        return self._manager.batch_defer_jobs(jobs=prepared)


class Adapter:
    imports: tuple[str, ...] = ("procrastinate", "psycopg_pool", "uvloop")

    def install(self, dsn: str) -> None:
        app, _ = _app(_sync(dsn), None)
        with app.open():
            app.schema_manager.apply_schema()

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        app, task = _app(_sync(dsn), None)
        with app.open():
            yield Producer(app, task)

    def work(self, dsn: str, load: Load, run: Run) -> None:
        import uvloop

        uvloop.run(_work(dsn, 1 if load.lanes == 1 else CONCURRENCY, run))


async def _work(dsn: str, concurrency: int, run: Run) -> None:
    from procrastinate import PsycopgConnector

    logging.disable(logging.WARNING)
    app, _ = _app(
        PsycopgConnector(conninfo=dsn, min_size=CONCURRENCY + 2, max_size=CONCURRENCY + 2), run
    )
    async with app.open_async():
        await app.run_worker_async(concurrency=concurrency)


def _sync(dsn: str) -> Any:
    from procrastinate import SyncPsycopgConnector

    return SyncPsycopgConnector(conninfo=dsn)


def _app(connector: Any, run: Run | None) -> tuple[Any, Any]:
    from procrastinate import App

    app = App(connector=connector)

    @app.task(name="work")
    async def work(number: int, lane: str, ms: float) -> None:
        assert run is not None
        await run(number, lane, ms)

    return app, work


if __name__ == "__main__":
    main(Adapter())
