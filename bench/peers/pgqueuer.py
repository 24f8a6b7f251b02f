"""pgqueuer. It has no lock per job.

A lane is an entrypoint with a concurrency limit of 1, and the worker must know every lane. A limit
is such an entrypoint with a larger number, and so is a tenant, because it has no groups.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.jobs import Job, Load, Tool
from bench.peers.adapter import Run, main, python_peer

BATCH = 500

PEER = python_peer(
    "pgqueuer",
    "pgqueuer",
    "SELECT count(*) FROM pgqueuer",
    module="bench.peers.pgqueuer",
    entry="from pgqueuer import PgQueuer",
    max_queues=1,
    tools=(Tool.LIMIT, Tool.GROUP),
    settings=f"asyncpg, uvloop, batch_size {BATCH}, or as many as all limits allow; "
    "lanes: entrypoints with concurrency_limit 1",
)
FREE = "free"


class Producer:
    def __init__(self, queries: Any) -> None:
        self._queries = queries

    async def one(self, job: Job) -> object:
        return await self._queries.enqueue(job.lane or FREE, _payload(job), job.priority)

    def prepare(self, batch: list[Job]) -> Any:
        return (
            [job.lane or FREE for job in batch],
            [_payload(job) for job in batch],
            [job.priority for job in batch],
        )

    async def bulk(self, prepared: Any) -> object:
        return await self._queries.enqueue(*prepared)


def _payload(job: Job) -> bytes:
    return json.dumps(job.args).encode()


class Adapter:
    imports: tuple[str, ...] = ("pgqueuer", "asyncpg", "uvloop")

    def install(self, dsn: str) -> None:
        asyncio.run(_install(dsn))

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        connection = await _connect(dsn)
        yield Producer(_queries(connection))
        await connection.close()

    def work(self, dsn: str, load: Load, run: Run) -> None:
        import uvloop  # pgqueuer's own command line uses it too

        uvloop.run(_work(dsn, load, run))


async def _work(dsn: str, load: Load, run: Run) -> None:
    from pgqueuer import PgQueuer
    from pgqueuer.models import Job as Theirs

    async def work(job: Theirs) -> None:
        await run(**json.loads(job.payload or b""))

    queue = PgQueuer.from_asyncpg_connection(await _connect(dsn))
    queue.entrypoint(FREE)(work)
    for lane in range(load.lanes):
        queue.entrypoint(f"lane-{lane}", concurrency_limit=load.width)(work)
    await queue.run(batch_size=_batch_size(load))


def _batch_size(load: Load) -> int:
    """Return a size that limits let fill up, because ended jobs wait for as many, or for 0.1 s."""
    return BATCH if load.tool is Tool.LOCK else min(BATCH, load.lanes * load.width)


async def _install(dsn: str) -> None:
    connection = await _connect(dsn)
    await _queries(connection).install()
    await connection.close()


async def _connect(dsn: str) -> Any:
    import asyncpg

    return await asyncpg.connect(dsn)


def _queries(connection: Any) -> Any:
    from pgqueuer.queries import Queries

    return Queries.from_asyncpg_connection(connection)


if __name__ == "__main__":
    main(Adapter())
