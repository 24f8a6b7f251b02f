"""Awa, by its Python package. Its workers are in Rust and call the tasks in Python.

Its `ordering_key` does not keep two jobs of a key apart, so lanes are spread over partitions, each
of which runs one job at a time. They wait for each other there, as its documentation says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.jobs import Job, Load
from bench.peers.adapter import SLOTS, Run, main, python_peer

PARTITIONS = 16
CONNECTIONS = 20
FREE, LANES = "free", "lanes"

# A running job is in neither table until its first heartbeat, and is not counted.
UNFINISHED = """
SELECT (SELECT count(*) FROM awa.leases) + (
    SELECT count(*)
    FROM awa.ready_entries AS entries
    JOIN awa.queue_claim_heads AS heads USING (queue, priority, enqueue_shard)
    WHERE entries.lane_seq >= awa.sequence_next_value(heads.seq_name)
)
"""

PEER = python_peer(
    "Awa",
    "awa-pg",
    UNFINISHED,
    module="bench.peers.awa",
    entry="from awa import AsyncClient",
    max_queues=1,
    max_priorities=1,
    settings=f"{SLOTS} jobs at once, {CONNECTIONS} connections, COPY for bulk; "
    f"lanes: {PARTITIONS} partitions with one job at a time",
)


@dataclass
class Work:
    number: int
    lane: str
    ms: float


class Producer:
    def __init__(self, client: Any) -> None:
        import awa

        self._client = client
        self._lanes = awa.PartitionedQueue(LANES, PARTITIONS)

    async def one(self, job: Job) -> object:
        return await self._client.insert(Work(**job.args), **self._route(job))

    def prepare(self, batch: list[Job]) -> Any:
        return [Work(**job.args) for job in batch], [self._route(job) for job in batch]

    async def bulk(self, prepared: Any) -> object:
        work, routes = prepared
        return await self._client.enqueue_many_copy(work, opts=routes)

    def _route(self, job: Job) -> dict[str, Any]:
        return self._lanes.route_by_key(job.lane) if job.lane else {"queue": FREE}


class Adapter:
    imports: tuple[str, ...] = ("awa",)

    def install(self, dsn: str) -> None:
        asyncio.run(_install(dsn))

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        client = _connect(dsn)
        yield Producer(client)
        await client.close()

    def work(self, dsn: str, load: Load, run: Run) -> None:
        asyncio.run(_work(dsn, load, run))


async def _work(dsn: str, load: Load, run: Run) -> None:
    import awa

    client = _connect(dsn)
    lanes = awa.PartitionedQueue(LANES, PARTITIONS)

    @client.task(Work, queue=LANES if load.lanes else FREE)
    async def work(job: Any) -> None:
        await run(job.args.number, job.args.lane, job.args.ms)

    queues = lanes.queue_configs(max_workers_per_partition=1) if load.lanes else [(FREE, SLOTS)]
    await client.start(queues)
    await asyncio.Event().wait()


async def _install(dsn: str) -> None:
    client = _connect(dsn)
    await client.migrate()
    await client.install_queue_storage()
    await client.close()


def _connect(dsn: str) -> Any:
    import awa

    # Its driver wants a host even where the parameter names a folder of a socket.
    return awa.AsyncClient(dsn.replace("@/", "@localhost/"), max_connections=CONNECTIONS)


if __name__ == "__main__":
    main(Adapter())
