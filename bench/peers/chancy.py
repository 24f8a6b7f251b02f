"""chancy: several executors, no lanes. A queue can have a rate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.jobs import Job, Load, Tool
from bench.peers.adapter import SLOTS, Run, main, python_peer

PEER = python_peer(
    "chancy",
    "chancy",
    "SELECT count(*) FROM chancy_jobs WHERE state NOT IN ('succeeded', 'failed')",
    module="bench.peers.chancy",
    entry="from chancy import Chancy",
    max_lanes=0,
    max_queues=1,
    max_priorities=1,
    tools=(Tool.RATE,),
    settings=f"async executor, concurrency {SLOTS}, eager polling, uvloop",
)
_run: list[Run] = []  # the body of `work`, which chancy imports by name


async def work(number: int, lane: str, ms: float) -> None:
    await _run[0](number, lane, ms)


class Producer:
    def __init__(self, chancy: Any) -> None:
        from chancy import job

        self._chancy = chancy
        self._job = job()(work).job

    async def one(self, job: Job) -> object:
        return self._chancy.sync_push(self._job.with_kwargs(**job.args))

    def prepare(self, batch: list[Job]) -> Any:
        return [self._job.with_kwargs(**job.args) for job in batch]

    async def bulk(self, prepared: Any) -> object:
        return list(self._chancy.sync_push_many(prepared, batch_size=len(prepared)))


class Adapter:
    imports: tuple[str, ...] = ("chancy", "uvloop")

    def install(self, dsn: str) -> None:
        asyncio.run(_install(dsn))

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        with _chancy(dsn) as chancy:
            yield Producer(chancy)

    def work(self, dsn: str, load: Load, run: Run) -> None:
        _run.append(run)
        import uvloop

        uvloop.run(_work(dsn, load))


async def _install(dsn: str) -> None:
    async with _chancy(dsn) as chancy:
        await chancy.migrate()
        await chancy.declare(_queue())


def _queue(**rate: int) -> Any:
    from chancy import Chancy, Queue

    return Queue(
        "default",
        concurrency=SLOTS,
        executor=Chancy.Executor.Async,
        polling_interval=1,
        eager_polling=True,
        **rate,
    )


async def _work(dsn: str, load: Load) -> None:
    from chancy import Worker

    async with _chancy(dsn) as chancy:
        if load.tool is Tool.RATE:
            limited = _queue(rate_limit=load.width, rate_limit_window=1)
            await chancy.declare(limited, upsert=True)
        async with Worker(chancy) as worker:
            await worker.wait_for_shutdown()


def _chancy(dsn: str) -> Any:
    from chancy import Chancy

    log = logging.getLogger("chancy")
    log.setLevel(logging.ERROR)
    return Chancy(dsn, log=log)


if __name__ == "__main__":
    main(Adapter())
