"""inturn, from this checkout or from another one (INTURN_SOURCE, BASE)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench import pooler
from bench.jobs import Job
from bench.peers.adapter import ROOT, SLOTS, Peer, Run, import_time, main

UNFINISHED = "SELECT count(*) FROM inturn.jobs"


def peer(name: str, source: Path, *, pooled: bool = False) -> Peer:
    return Peer(
        name,
        "inturn",
        UNFINISHED,
        command=(sys.executable, "-m", "bench.peers.ours", *(["--pooled"] if pooled else [])),
        settings=f"concurrency {SLOTS}"
        + (", through PgBouncer in transaction mode" if pooled else ""),
        missing=pooler.missing if pooled else lambda: None,
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
    def __init__(self, task: Any) -> None:
        self._task = task

    async def one(self, job: Job) -> object:
        return (self._task.configure(lock=job.lane) if job.lane else self._task).defer(**job.args)

    def prepare(self, batch: list[Job]) -> Callable[[], object]:
        if batch[0].lane is None:
            kwargs = [job.args for job in batch]
            return lambda: self._task.batch_defer(*kwargs)
        new = _new_jobs(self._task, batch)
        return lambda: self._task._owner.enqueue(new)

    async def bulk(self, prepared: Callable[[], object]) -> object:
        return prepared()


def _new_jobs(task: Any, batch: list[Job]) -> list[Any]:
    """Return the jobs for one call. Each job can have a lock of its own."""
    return [task.configure(lock=job.lane).make_new_job(**job.args) for job in batch]


class Adapter:
    def __init__(self, *, pooled: bool) -> None:
        self._pooled = pooled

    def install(self, dsn: str) -> None:
        from inturn import App

        App(dsn).schema_manager.apply_schema()

    @asynccontextmanager
    async def producer(self, dsn: str) -> AsyncIterator[Producer]:
        app, task = self._app(dsn, None)
        with app.open():
            yield Producer(task)

    def work(self, dsn: str, lanes: int, run: Run) -> None:
        app, _ = self._app(dsn, run)
        app.run_worker(concurrency=SLOTS)

    def _app(self, dsn: str, run: Run | None) -> tuple[Any, Any]:
        from inturn import App, PsycopgConnector

        if self._pooled:
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
    pooled = "--pooled" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--pooled"]
    main(Adapter(pooled=pooled))
