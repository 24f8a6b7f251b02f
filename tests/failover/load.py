"""Real workers and producers on a database that fails over, and the outcome."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from tests.evidence.events import Event, History, Tail, read
from tests.evidence.judge import Verdict, judge
from tests.evidence.record import environment
from tests.failover.cluster import LIMIT, wait_until

ROOT = Path(__file__).parents[2]
LANES = 4  # of each producer
CONCURRENCY = 6
FINAL = """
SELECT args->>'lane', (args->>'number')::int, fence, status::text FROM inturn.finished_jobs
"""
HEARTBEAT, STALLED = 1, 6  # seconds: an outage in these tests is longer than the second


class Load:
    """Start a worker and a producer for each way to the database, a DSN or an environment."""

    def __init__(self, folder: Path, *ways: str | Mapping[str, str], pause: float = 0.01) -> None:
        self.folder, self.history, self.tail = folder, History(folder, "run", "test"), Tail(folder)
        self._ways = [{"INTURN_DSN": way} if isinstance(way, str) else way for way in ways]
        self._pause = pause
        self.workers: list[subprocess.Popen[bytes]] = []
        self.producers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        worker = [
            str(Path(sys.executable).with_name("queue")),
            "-a",
            "tests.failover.load_app:app",
            "worker",
        ]
        worker += [
            "-c",
            str(CONCURRENCY),
            "--heartbeat",
            str(HEARTBEAT),
            "--stalled-after",
            str(STALLED),
        ]
        worker += ["--db-grace", str(LIMIT)]  # if we are killed, it ends after the servers
        producer = [sys.executable, "-m", "tests.failover.load_app"]
        for n, way in enumerate(self._ways):
            lanes = ",".join(f"lane{n}_{lane}" for lane in range(LANES))
            self.workers.append(self._launch(worker, f"worker{n}", way))
            self.producers.append(
                self._launch([*producer, lanes, str(self._pause)], f"producer{n}", way)
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in (*self.producers, *self.workers):
            process.kill()
            process.wait()
        if error is not None:
            for output in sorted(self.folder.glob("*.out")):
                error.add_note(f"{output.name}:\n{output.read_text()[-3000:]}")

    def _launch(
        self, command: list[str], name: str, way: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        settings = {**os.environ, "PYTHONPATH": str(ROOT), **way,
                    **environment(self.folder, "run", name)}  # fmt: skip
        self.history.write("spawned", victim=name)
        with (self.folder / f"{name}.out").open("wb") as output:
            return subprocess.Popen(command, cwd=ROOT, env=settings, stdout=output, stderr=output)

    @property
    def dsn(self) -> str:
        return self._ways[0]["INTURN_DSN"]

    def events(self) -> list[Event]:
        """Return all events that can be read by now."""
        self.tail.look()
        return self.tail.events

    def goes_on(self, jobs: int = 200) -> None:
        """Return when this many more jobs were acknowledged and have ended."""
        enough = {kind: self.count(kind) + jobs for kind in ("ok", "end")}
        wait_until(
            lambda: all(self.count(kind) >= count for kind, count in enough.items()),
            "the load's going on",
        )

    def await_event(self, name: str, lane: str) -> None:
        wait_until(
            lambda: any(
                event.name == name and event.facts["lane"] == lane for event in self.events()
            ),
            f"the {name} of {lane}",
        )

    def count(self, name: str) -> int:
        assert self.all_alive(), "a worker or a producer has ended"
        return sum(event.name == name for event in self.events())

    def all_alive(self) -> bool:
        return all(process.poll() is None for process in (*self.workers, *self.producers))

    def finish(self) -> Verdict:
        """Let all deferred jobs end, stop all processes in order, and judge."""
        self._leave(self.producers)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            left = "SELECT count(*) FROM inturn.jobs"
            wait_until(lambda: self._has_none(connection, left), "the end of all jobs")
            assert all(worker.poll() is None for worker in self.workers), "a worker has ended"
            self._leave(self.workers)
            for lane, number, fence, status in connection.execute(FINAL.encode()):
                job = [f"{lane}/{number}", 0]
                self.history.write("final", job=job, fence=fence, status=status)
        self.history.close()
        return judge(*read(self.folder))

    def _has_none(self, connection: psycopg.Connection, left: str) -> bool:
        return connection.execute(left.encode()).fetchone() == (0,)

    def _leave(self, processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(LIMIT) for process in processes] == [0] * len(processes)
