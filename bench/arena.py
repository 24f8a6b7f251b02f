"""Run one peer in a fresh database, with its processes. Each row is measured in an arena.

The database is a copy of a template in which the peer has installed itself, so every run starts
from the same state. Autovacuum analyses tables at moments of its own choosing. Therefore the arena
analyses them at a moment that you choose (`Moment`), and the server's autovacuum is off.
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import psycopg

from bench.jobs import FREE_JOBS, WARM, Load, Ran, Verdict, judge
from bench.peers.adapter import Peer
from bench.processes import Process, ProducerProcess, WorkerProcess
from bench.server import Bed, Counters

P = TypeVar("P", bound=Process)
WARM_JOBS = 200
WARM_JOBS_OF_A_LANE = 20  # some peers run two a second
WARM_SECONDS = 30.0
SETTLE_SECONDS = 20.0
LOOK_SECONDS = 0.005


class Moment(enum.StrEnum):
    """When the tables are vacuumed and analysed."""

    NEVER = "never"
    EMPTY = "empty"  # before the jobs are enqueued
    FULL = "full"  # after the jobs have been enqueued


@dataclass(frozen=True)
class Drained:
    """The jobs that the workers ran after they were resumed. `done` is False if time ran out."""

    trace: list[Ran]
    began: float
    seconds: float
    cpu_seconds: float  # of the workers
    server_cpu_seconds: float
    done: bool
    load: Load = FREE_JOBS

    @property
    def rate(self) -> float:
        return len(self.trace) / self.seconds

    @property
    def verdict(self) -> Verdict:
        return judge(self.trace, self.load)

    @property
    def note(self) -> str:
        """Return a description of the errors, or an empty string."""
        late = [] if self.done else [f"only {len(self.trace)} in {self.seconds:.0f} s"]
        return ", ".join(late + ([] if self.verdict.fine else [f"WRONG: {self.verdict}"]))


class Arena:
    def __init__(self, bed: Bed, peer: Peer, moment: Moment = Moment.EMPTY) -> None:
        self.peer = peer
        self.moment = moment
        self._bed = bed
        self._template = "bench_" + "".join(c if c.isalnum() else "_" for c in peer.name)
        self._database = self._template + "_run"
        self._running = contextlib.ExitStack()
        self._installed = False
        self.producer: ProducerProcess
        self._observer: psycopg.Connection[Any]

    @contextlib.contextmanager
    def fresh(self) -> Iterator[Arena]:
        """Open the arena on a fresh database. On exit, kill its processes and drop the database."""
        if not self._installed:
            self._install()
        self._bed.drop(self._database)
        self._bed.create(self._database, self._template)
        try:
            with contextlib.ExitStack() as self._running:
                self._observer = self._running.enter_context(self.observe())
                self.producer = self._start(
                    ProducerProcess(self.peer, self._bed.dsn(self._database))
                )
                self.analyse(Moment.EMPTY)
                yield self
        finally:
            self._bed.drop(self._database)

    def _install(self) -> None:
        self._bed.drop(self._template)
        self._bed.create(self._template)
        process = Process(self.peer, "install", self._bed.dsn(self._template))
        try:
            if process.wait() != 0:
                raise process.failed("failed")
        finally:
            process.kill()
        self._installed = True

    def _start(self, process: P) -> P:
        self._running.callback(process.kill)
        return process

    def observe(self) -> contextlib.closing[psycopg.Connection[Any]]:
        """Open a connection whose work is not counted with that of the peer."""
        return contextlib.closing(self._bed.observe(self._database))

    def another_producer(self) -> ProducerProcess:
        return self._start(ProducerProcess(self.peer, self._bed.dsn(self._database)))

    def analyse(self, now: Moment) -> None:
        """Vacuum and analyse the tables if this is the arena's moment."""
        if now is self.moment:
            self._observer.execute("VACUUM (ANALYZE)")

    def enqueue(
        self, count: int, load: Load, *, first: int = 0, calls: int = 1, ms: float = 0
    ) -> float:
        """Enqueue jobs, analyse at the arena's moment, and return the seconds that it took."""
        seconds = self.producer.bulk(count, first=first, calls=calls, ms=ms, **load._asdict())
        self.analyse(Moment.FULL)
        return seconds

    def counters(self) -> Counters:
        return self._bed.counters(self._database)

    def commit_ms(self, count: int) -> float:
        """Return how long one statement with its commit takes, as the median of so many."""
        self._observer.execute("CREATE TABLE commits (number integer)")
        times = []
        for number in range(count):
            began = time.monotonic()
            self._observer.execute("INSERT INTO commits VALUES (%s)", [number], prepare=True)
            times.append(time.monotonic() - began)
        return median(times) * 1000

    @property
    def server_cpu_seconds(self) -> float:
        return self._bed.cpu_seconds

    def cold_workers(self, count: int, load: Load) -> list[WorkerProcess]:
        """Start workers that have imported their modules and wait for the order to go."""
        return [self._start_worker(load) for _ in range(count)]

    def _start_worker(self, load: Load) -> WorkerProcess:
        return self._start(WorkerProcess(self.peer, self._bed.dsn(self._database), load))

    def workers(
        self, count: int, load: Load = FREE_JOBS, *, warm: Load | None = None
    ) -> list[WorkerProcess]:
        """Start workers, warm them up and pause them. By default, `warm` equals `load`."""
        workers = []
        for index in range(count):
            [worker] = self.cold_workers(1, load)
            worker.resume()
            self._warm(worker, WARM + index * WARM_JOBS, load if warm is None else warm)
            self.pause(worker)
            workers.append(worker)
        return workers

    def _warm(self, worker: WorkerProcess, first: int, load: Load) -> None:
        count = WARM_JOBS_OF_A_LANE if load.lanes == 1 else WARM_JOBS
        self.producer.bulk(count, first=first, **load._asdict())
        await_warmth(worker, count)
        self.settle()

    def pause(self, worker: WorkerProcess) -> None:
        """Pause a worker outside of a transaction, so that it holds no locks while it is paused."""
        for _ in range(100):
            worker.pause()
            if not self._bed.in_transaction(self._database):
                return
            worker.resume()
            time.sleep(LOOK_SECONDS)
        raise worker.failed("never leaves its transaction")

    def drain(
        self, workers: list[WorkerProcess], count: int, limit: float, *, settle: bool = True
    ) -> Drained:
        """Resume the workers and wait until `count` jobs have run.

        With `settle`, also wait until the database has no unfinished jobs.
        """
        before = sum(worker.warmed for worker in workers)
        cpu = sum(worker.cpu_seconds for worker in workers)
        server_cpu = self.server_cpu_seconds
        began = time.monotonic()
        for worker in workers:
            worker.resume()
        done = wait_until_ran(workers, before + count, limit)
        waited = time.monotonic() - began
        cpu = sum(worker.cpu_seconds for worker in workers) - cpu
        if done and settle:
            self.settle()
        server_cpu = self.server_cpu_seconds - server_cpu
        trace = [ran for worker in workers for ran in worker.stop() if ran.number < WARM]
        seconds = max((ran.end for ran in trace), default=began) - began if done else waited
        return Drained(trace, began, seconds, cpu, server_cpu, done, workers[0].load)

    def settle(self) -> None:
        """Wait until the database has no unfinished jobs."""
        _until(lambda: not self.unfinished, SETTLE_SECONDS)

    @property
    def unfinished(self) -> int:
        row = self._observer.execute(self.peer.unfinished.encode()).fetchone()
        assert row is not None
        return int(row[0])


def await_warmth(worker: WorkerProcess, count: int) -> None:
    """Wait until the worker has run so many warm-up jobs."""
    _until(lambda: worker.ran >= count or not worker.alive, WARM_SECONDS)
    if worker.ran < count:
        raise worker.failed(f"ran only {worker.ran} of {count} warm-up jobs in {WARM_SECONDS:g} s")
    worker.warmed = count


def wait_until_ran(workers: Sequence[WorkerProcess], count: int, seconds: float) -> bool:
    """Wait until the workers have run `count` jobs. Return False if the time is over first."""

    def ran() -> bool:
        return sum(worker.ran for worker in workers) >= count

    _until(lambda: ran() or not _alive(workers), seconds)
    return ran()


def _alive(workers: Sequence[WorkerProcess]) -> bool:
    for worker in workers:
        if not worker.alive:
            raise worker.failed("exited")
    return True


def _until(done: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
