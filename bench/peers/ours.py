"""inturn, from this checkout or from another one (INTURN_SOURCE, BASE)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from bench import pooler
from bench.jobs import Job, Load, Tool
from bench.peers.adapter import ROOT, SLOTS, Peer, Run, import_time, main

UNFINISHED = "SELECT count(*) FROM inturn.jobs"


BURST_SHARE = 10  # a burst is a tenth of what a rate allows in a second
UVLOOP = "--uvloop"
POOLED = "--pooled"
ONE_QUEUE = "--one-queue"
FLAGS = {
    ONE_QUEUE: ", serves only the default queue",
    POOLED: ", through PgBouncer in transaction mode",
    UVLOOP: ", uvloop",
}


def peer(name: str, source: Path, *flags: str) -> Peer:
    return Peer(
        name,
        "inturn",
        UNFINISHED,
        command=(sys.executable, "-m", "bench.peers.ours", *flags),
        settings=f"concurrency {SLOTS}" + "".join(FLAGS[flag] for flag in flags),
        tools=tuple(Tool),
        missing=pooler.missing if POOLED in flags else lambda: None,
        environment=(("PYTHONPATH", f"{source / 'queue'}{os.pathsep}{ROOT}"),),
        version=lambda: _revision(source),
        import_time=import_time("from inturn import App"),
    )


def _revision(source: Path) -> str:
    git = shutil.which("git")
    if git is None:
        return "checkout"
    command = [git, "-C", source, "describe", "--always", "--dirty"]
    return (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        or "checkout"
    )


class Producer:
    def __init__(self, app: Any, task: Any) -> None:
        self._app, self._task = app, task

    async def one(self, job: Job) -> object:
        plain = not (job.lane or job.queue or job.priority)
        return (self._task if plain else _configured(self._task, job)).defer(**job.args)

    def prepare(self, batch: list[Job]) -> Callable[[], object]:
        if all(not (job.lane or job.queue or job.priority) for job in batch):
            kwargs = [job.args for job in batch]
            return lambda: self._task.batch_defer(*kwargs)
        if batch[0].tool is Tool.AFTER:
            return partial(self._enqueue_chains, batch)
        if batch[0].tool is Tool.BATCH:
            return partial(self._enqueue_batch, batch)
        return partial(self._app.enqueue, _new_jobs(self._task, batch))

    def _enqueue_chains(self, batch: list[Job]) -> None:
        """Enqueue in one call for each place, because jobs of a call cannot follow each other."""
        before: dict[str | None, tuple[Any, ...]] = {}
        for _, jobs in groupby(batch, lambda job: job.place):
            row = list(jobs)
            new = [
                self._task.configure(after=before.get(job.lane, ())).make_new_job(**job.args)
                for job in row
            ]
            ids = self._app.enqueue(new)
            before = {job.lane: (id_,) for job, id_ in zip(row, ids, strict=True)}

    def _enqueue_batch(self, batch: list[Job]) -> None:
        """Enqueue a batch, with the last job as its callback."""
        *members, last = batch
        callback = self._task.configure(task_kwargs=last.args)
        with self._app.batch("bench", callback=callback) as number:
            member = self._task.configure(batch=number)
            self._app.enqueue([member.make_new_job(**job.args) for job in members])

    async def bulk(self, prepared: Callable[[], object]) -> object:
        return prepared()


def _configured(task: Any, job: Job) -> Any:
    queue = {"queue": job.queue} if job.queue else {}
    return task.configure(priority=job.priority, **_shared(job), **queue)


def _shared(job: Job) -> dict[str, Any]:
    """Return the option that the jobs of a lane share."""
    match job.tool:
        case Tool.LIMIT | Tool.RATE:
            return {"limit": job.lane}
        case Tool.GROUP:
            return {"group": job.lane}
        case Tool.EXPIRY:
            return {"expires_in": {"hours": 1}}
        case _:
            return {"lock": job.lane}


def _set_limit(app: Any, load: Load) -> None:
    if load.tool in (Tool.LIMIT, Tool.RATE):
        limit: dict[str, Any] = {"concurrency": load.width}
        if load.tool is Tool.RATE:
            limit = {"rate": f"{load.width}/s", "burst": load.width // BURST_SHARE}
        with app.open():
            app.limits.set("lane-*", **limit)


def _new_jobs(task: Any, batch: list[Job]) -> list[Any]:
    """Return the jobs for one call. Each job can have a lock of its own."""
    return [_configured(task, job).make_new_job(**job.args) for job in batch]


class Adapter:
    imports: tuple[str, ...] = (
        "inturn.worker.worker",
        "inturn.database.connectors",
        "anyio._backends._asyncio",
    )

    def __init__(self, flags: list[str]) -> None:
        self._flags = flags

    def install(self, dsn: str) -> None:
        from inturn import App

        App(dsn).schema_manager.apply_schema()

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        app, task = self._app(dsn, None)
        with app.open():
            yield Producer(app, task)

    def work(self, dsn: str, load: Load, run: Run) -> None:
        app, _ = self._app(dsn, run)
        _set_limit(app, load)
        options: dict[str, Any] = {"concurrency": SLOTS}
        if ONE_QUEUE in self._flags:
            options["queues"] = ["default"]
        if UVLOOP in self._flags:
            import uvloop

            uvloop.run(app.run_worker_async(**options))
        else:
            app.run_worker(**options)

    def _app(self, dsn: str, run: Run | None) -> tuple[Any, Any]:
        from inturn import App, PsycopgConnector

        if POOLED in self._flags:
            app = App(
                connector=PsycopgConnector(
                    pooler.through(dsn), listen_dsn=dsn, prepare_threshold=None
                )
            )
        else:
            app = App(dsn)

        @app.task
        async def work(number: int, lane: str, ms: float) -> None:
            assert run is not None
            await run(number, lane, ms)

        return app, work


if __name__ == "__main__":
    given = [word for word in sys.argv if word in FLAGS]
    sys.argv = [word for word in sys.argv if word not in FLAGS]
    main(Adapter(given))
