"""The interface that each queue implements, and the processes that it is measured in.

A peer's file declares its `Peer` for the harness and its `Adapter` for the processes. The command
`python -m bench.peers.NAME ROLE` runs one process:

- `install` creates the schema and exits.
- `produce` reads orders, one JSON object per line, and answers each with the seconds it took.
- `work` imports what the worker needs and says that it is ready. When it reads the line `go`, it
  runs the peer's own worker and reports how many jobs have run. When it reads the line `stop`, it
  prints its trace and exits.

The peers on Node follow the same protocol (node/process.mjs).
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from bench import jobs
from bench.jobs import Job, Load, Tool

ROOT = Path(__file__).resolve().parents[2]
REPORT_SECONDS = 0.005
MANY = 10**9
SLOTS = 100  # concurrency of a worker, and batch size of a peer that works in batches


@dataclass(frozen=True)
class Peer:
    """The facts that the harness needs about a queue.

    `unfinished` is SQL that counts the jobs that are not done.
    """

    name: str
    package: str
    unfinished: str
    command: tuple[str, ...]
    max_lanes: int = MANY  # the number of lanes in which it keeps order
    max_queues: int = MANY  # the number of queues that its adapter uses
    max_priorities: int = MANY
    tools: tuple[Tool, ...] = ()  # what it has besides locks
    rows: tuple[str, ...] = ()  # the rows that it is measured in; empty means all
    settings: str = ""  # its best settings, for the report
    environment: tuple[tuple[str, str], ...] = ()
    missing: Callable[[], str | None] = lambda: None
    version: Callable[[], str] = lambda: ""
    import_time: tuple[str, ...] = ()  # command that imports it and prints the milliseconds


class Producer(Protocol):
    async def one(self, job: Job) -> object:
        """Enqueue one job. It is committed on return."""

    def prepare(self, batch: list[Job]) -> Any:
        """Return the argument for `bulk`. This is not measured."""

    async def bulk(self, prepared: Any) -> object:
        """Enqueue many jobs in one call. They are committed on return."""


class Run(Protocol):
    """The body of every task: note the start, sleep for `ms` milliseconds, note the end."""

    def __call__(self, number: int, lane: str, ms: float) -> Awaitable[None]: ...


class Adapter(Protocol):
    imports: tuple[str, ...]  # the modules that the worker needs, imported before it is ready

    def install(self, dsn: str) -> None: ...

    def producer(self, dsn: str) -> AbstractAsyncContextManager[Producer]: ...

    def work(self, dsn: str, load: Load, run: Run) -> None:
        """Run the peer's worker forever and await `run` for each job.

        `load` says how the jobs will be dealt out, and what the jobs of a lane have in common.
        """


def python_peer(
    name: str, package: str, unfinished: str, *, module: str, entry: str, **more: Any
) -> Peer:
    """Return the peer of a Python queue. `entry` is the import statement that its users write."""
    return Peer(
        name,
        package,
        unfinished,
        command=(sys.executable, "-m", module),
        missing=lambda: None if _is_installed(package) else f"{package} is not installed",
        version=lambda: metadata.version(package),
        import_time=import_time(entry),
        **more,
    )


def _is_installed(package: str) -> bool:
    return any(metadata.distributions(name=package))


def import_time(entry: str) -> tuple[str, ...]:
    code = f"import time; t = time.perf_counter(); {entry}; print((time.perf_counter() - t) * 1000)"
    return (sys.executable, "-c", code)


# ---------------------------------------------------------------- inside a peer's process


def main(adapter: Adapter) -> None:
    role, dsn, *load = sys.argv[1:]
    if role == "install":
        adapter.install(dsn)
    elif role == "produce":
        asyncio.run(_produce(adapter, dsn))
    else:
        _work(adapter, dsn, _load(json.loads(load[0])))


def _load(given: dict[str, Any]) -> Load:
    return Load(**given | {"tool": Tool(given["tool"])})


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def _produce(adapter: Adapter, dsn: str) -> None:
    async with adapter.producer(dsn) as producer:
        say(ready=True)
        for line in sys.stdin:
            order = json.loads(line)
            calls, pause = order.pop("calls", 0), order.pop("pause", 0)
            batch = jobs.make(**order)
            if calls:
                say(seconds=await _bulk(producer, batch, calls))
            else:
                say(**await _one_by_one(producer, batch, pause))


async def _bulk(producer: Producer, batch: list[Job], calls: int) -> float:
    size = -(-len(batch) // calls)
    parts = [producer.prepare(batch[at : at + size]) for at in range(0, len(batch), size)]
    start = time.monotonic()
    for part in parts:
        await producer.bulk(part)
    return time.monotonic() - start


async def _one_by_one(producer: Producer, batch: list[Job], pause: float) -> dict[str, Any]:
    at = []
    start = time.monotonic()
    for job in batch:
        at.append(time.monotonic())
        await producer.one(job)
        if pause:
            await asyncio.sleep(pause)
    return {"seconds": time.monotonic() - start, "at": at if pause else []}


def _work(adapter: Adapter, dsn: str, load: Load) -> None:
    trace: list[tuple[int, str, float, float]] = []

    async def run(number: int, lane: str, ms: float) -> None:
        start = time.monotonic()
        if ms:
            await asyncio.sleep(ms / 1000)
        trace.append((number, lane, start, time.monotonic()))

    for name in adapter.imports:
        importlib.import_module(name)
    say(ready=True)
    sys.stdin.readline()  # returns on the order to go
    threading.Thread(target=_report, args=(trace,), daemon=True).start()
    threading.Thread(target=_await_stop, args=(trace,), daemon=True).start()
    adapter.work(dsn, load, run)


def _report(trace: list[Any]) -> None:
    said = 0
    while True:
        time.sleep(REPORT_SECONDS)
        if len(trace) != said:
            said = len(trace)
            say(ran=said)


def _await_stop(trace: list[Any]) -> None:
    sys.stdin.readline()  # returns on the order to stop, or when the harness exits
    say(trace=list(trace))
    os._exit(0)
