"""The queues that the adapter runs, each with its own best means to keep the order of a key."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, ClassVar, NamedTuple, Protocol

import psycopg

QUEUE = "bench"
PARTITIONS = 16  # of Awa
BEAT, DEAD = 5, 15  # seconds between two heartbeats, and until a worker without one is dead


class Job(NamedTuple):
    key: str
    number: int
    at: float
    padding: str

    def args(self) -> dict[str, Any]:
        return self._asdict()


class Run(Protocol):
    def __call__(self, key: str, number: int, at: float) -> Awaitable[None]: ...


@dataclass
class Queue:
    dsn: str
    concurrency: int
    run: Run
    keys: int
    workers: list[asyncio.Task[Any]] = field(default_factory=list)
    package: ClassVar[str]
    schema: ClassVar[str]
    tables: ClassVar[list[str]]  # as in adapter.json; the benchmark's readers scan the first

    @property
    def version(self) -> str:
        return metadata.version(self.package)

    async def find_tables(self) -> list[str]:
        """Return those of the manifest, and the others of the schema, such as partitions."""
        query = (
            "SELECT relnamespace::regnamespace || '.' || relname FROM pg_class "
            "WHERE relnamespace = %s::regnamespace AND relkind = 'r'"
        )
        found = [name for (name,) in await fetch(self.dsn, query, self.schema)]
        return self.tables + sorted(set(found) - set(self.tables))

    def open(self) -> Any:
        """Install the schema and run a worker until the context ends."""
        raise NotImplementedError

    async def insert(self, jobs: list[Job]) -> None:
        """Insert jobs in one call. They are committed on return."""
        raise NotImplementedError

    async def depth(self) -> int:
        """Return how many jobs wait."""
        raise NotImplementedError

    @asynccontextmanager
    async def working(self, worker: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(worker)
        self.workers.append(task)
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(task, 4)


async def fetch(dsn: str, query: str, *values: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        return await (await connection.execute(query, values)).fetchall()


async def fetch_count(dsn: str, query: str) -> int:
    return int((await fetch(dsn, query))[0][0])


class Inturn(Queue):
    """inturn: a lock."""

    package = schema = "inturn"
    tables: ClassVar[list[str]] = ["inturn.jobs", "inturn.lanes", "inturn.workers"]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        from inturn import App

        self._app = App(self.dsn)

        @self._app.task
        async def work(key: str, number: int, at: float, padding: str) -> None:
            await self.run(key, number, at)

        self._task = work
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()
            worker = self._app.run_worker_async(
                concurrency=self.concurrency,
                install_signal_handlers=False,
                update_heartbeat_interval=BEAT,
                stalled_worker_timeout=DEAD,
            )
            async with self.working(worker):
                yield

    async def insert(self, jobs: list[Job]) -> None:
        await self._app.enqueue_async(
            [self._task.configure(lock=job.key or None).make_new_job(**job.args()) for job in jobs]
        )

    async def depth(self) -> int:
        waiting = "SELECT count(*) FROM inturn.jobs WHERE status IN ('todo', 'blocked')"
        return await fetch_count(self.dsn, waiting)


class Procrastinate(Queue):
    """procrastinate, with a lock. Without keys, the benchmark's own adapter runs instead."""

    package = "procrastinate"
    schema = "public"
    tables: ClassVar[list[str]] = ["public.procrastinate_jobs", "public.procrastinate_events"]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        from procrastinate import App, PsycopgConnector

        self._app = app = App(connector=PsycopgConnector(conninfo=self.dsn))

        @app.task(name="work")
        async def work(key: str, number: int, at: float, padding: str) -> None:
            await self.run(key, number, at)

        self._task = work
        async with app.open_async():
            known = "SELECT count(to_regclass('public.procrastinate_jobs'))"
            if not await fetch_count(self.dsn, known):
                await app.schema_manager.apply_schema_async()
            async with self.working(self._work()), self.working(self._retry_stalled()):
                yield

    async def _work(self) -> None:
        """Run a worker again when it has ended, as a supervisor would after an outage."""
        while True:
            try:
                await self._app.run_worker_async(
                    concurrency=self.concurrency,
                    fetch_job_polling_interval=0.05,  # as in the benchmark's own adapter
                    install_signal_handlers=False,
                    update_heartbeat_interval=BEAT,
                    stalled_worker_timeout=DEAD,
                )
            except Exception as error:
                print(f"worker ended: {error}", file=sys.stderr)
            await asyncio.sleep(1)

    async def _retry_stalled(self) -> None:
        """Retry the jobs of dead workers, as its documentation says. It has no automatic way."""
        while True:
            await asyncio.sleep(BEAT)
            with suppress(Exception):
                for job in await self._app.job_manager.get_stalled_jobs():
                    await self._app.job_manager.retry_job(job)

    async def insert(self, jobs: list[Job]) -> None:
        new = [
            self._task.configure(lock=job.key or None).make_new_job(**job.args()) for job in jobs
        ]
        await self._app.job_manager.batch_defer_jobs_async(jobs=new)

    async def depth(self) -> int:
        waiting = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'"
        return await fetch_count(self.dsn, waiting)


@dataclass
class AwaJob:
    key: str
    number: int
    at: float
    padding: str


class Awa(Queue):
    """Awa, by its Python package: a partitioned queue, with one slot for each partition."""

    package = "awa-pg"
    schema = "awa"
    tables: ClassVar[list[str]] = ["awa.ready_entries"]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        import awa

        self._client = client = awa.AsyncClient(self.dsn, max_connections=20)
        await client.migrate()
        self._queues = awa.PartitionedQueue(QUEUE, PARTITIONS if self.keys else 1)

        @client.task(AwaJob, queue=QUEUE)
        async def work(job: Any) -> None:
            await self.run(job.args.key, job.args.number, job.args.at)

        slots = 1 if self.keys else self.concurrency
        await client.start(
            self._queues.queue_configs(max_workers_per_partition=slots),
            heartbeat_interval_ms=1000 * BEAT,
            heartbeat_rescue_interval_ms=1000 * BEAT,
            heartbeat_staleness_ms=1000 * DEAD,
        )
        try:
            yield
        finally:
            await client.shutdown()

    async def insert(self, jobs: list[Job]) -> None:
        routes = [self._queues.route_by_key(job.key) for job in jobs] if self.keys else None
        rows = [AwaJob(*job) for job in jobs]
        await self._client.enqueue_many_copy(rows, queue=QUEUE, opts=routes)

    async def depth(self) -> int:
        return sum(stat.available for stat in await self._client.queue_stats())


QUEUES: dict[str, type[Queue]] = {"inturn": Inturn, "procrastinate": Procrastinate, "awa": Awa}
