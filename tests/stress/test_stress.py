"""Everything at once, with real processes. A judge reads what they wrote down (tests/evidence).

Workers are killed, or stopped for so long that others take their jobs over, and then wake up.
Producers commit late, roll back and are killed. Jobs fail and are retried. People cancel jobs,
pause lanes and look after halted ones. `make test` runs this for some seconds, and `make stress`
for ten minutes. SECONDS and SEED change that.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.engine import Engine
from tests.evidence.collect import collect
from tests.evidence.counts import count_all
from tests.evidence.events import History, Tail
from tests.evidence.judge import check, describe
from tests.evidence.record import environment
from tests.evidence.spans import SECOND
from tests.stress.stress_app import LANES, LIMITS, STALLED, TOLERANCES

SECONDS = float(os.environ.get("INTURN_STRESS_SECONDS") or 9)
SEED = os.environ.get("INTURN_STRESS_SEED") or str(time.time_ns())
LIMIT = 90.0  # seconds for what is left in the end; only keeps a failing test from hanging
TURNS = 5  # of SECONDS, at most, until all that is rare has happened
WORKERS = ["", "", "x", "x,y"]  # the queues that they serve
PRODUCERS = 2
WEIGHTS = {"large": 2}  # of groups
RARE = [  # a run without them proves little
    "a commit was delayed",
    "a call was rolled back",
    "a process was killed",
    "a process was stopped for longer than its heartbeat",
    "the end of a stale attempt was refused",
    "runs of an attempt that was taken over",
    "a job failed",
    "a job was cancelled",
    "a lane was paused",
    "a job with several lanes ran",
    "a job ran beside another in a shared lane",
    "a job took the last slot of a limit",
    "a job with a rate started",
    "a job started after others",
    "a job was cancelled with its parent",
    "a job expired",
    "a person looked after a job",
    "a callback ran",
    "jobs of batches whose callback ran",
    "a job joined a closed batch",
    "a batch was given up",
    "a job waited for many of others",
]

HELD = """
SELECT job_id, parent_id, coalesce((
    SELECT parent.lock IS NULL FROM finished_jobs AS parent WHERE parent.id = parent_id
        AND parent.status <> 'succeeded'), false)  -- a parent without a row cannot be retried
FROM failed_parents
"""
LEFT = """
SELECT 'job', id::text FROM jobs UNION ALL SELECT 'lane', lock FROM lanes
WHERE state IS NOT NULL
UNION ALL SELECT 'edge', child::text FROM edges UNION ALL SELECT 'end', job_id::text FROM ends
UNION ALL SELECT 'limit', key FROM gates WHERE used <> 0
UNION ALL SELECT 'line', lock::text FROM waits
UNION ALL SELECT 'batch', id::text FROM batches WHERE ended_at IS NULL
UNION ALL SELECT 'gate', batch_id::text FROM batch_gates
UNION ALL SELECT 'event', batch_id::text FROM batch_events
"""
# Transactions last a tenth of a second, so few of them excuse anything.
VERIFY = """
SELECT verdict, promise, reason, lock, job_id, other_id, seen, jobs
FROM verify_slice(0, '{}', clock(), p_size => 1000000, p_open => '2 s')
"""
WHY_LEFT = [
    "SELECT job_id, reason, detail FROM (SELECT id FROM jobs ORDER BY id LIMIT 20) AS job(job_id) "
    "CROSS JOIN LATERAL explain(job_id)",
    "SELECT edges.*, parent.status FROM edges "
    "LEFT JOIN all_jobs AS parent ON parent.id = edges.parent LIMIT 20",
    "SELECT * FROM lanes LIMIT 20",
    "SELECT * FROM ends LIMIT 20",
    "SELECT * FROM batch_events LIMIT 20",
    "SELECT * FROM failed_parents LIMIT 20",
]

Process = subprocess.Popen[bytes]


class Play:
    """The processes, and what is done to them."""

    def __init__(self, dsn: str, app_dsn: str, folder: Path) -> None:
        self.app_dsn, self.folder = app_dsn, folder
        self.dice, self.tail = random.Random(SEED), Tail(folder)
        self.committed: deque[int] = deque(maxlen=30)
        self.inserted: dict[str, list[int]] = {}  # by their calls
        self.begun: dict[int, int] = {}  # the last fence of each job
        self.history = History(folder, SEED, "conductor")
        self.history.write(
            "settings", seed=SEED, limits=LIMITS, weights=WEIGHTS, required=RARE, **TOLERANCES
        )
        self.names: dict[Process, str] = {}
        self.until, self.last = 0.0, 0  # the last job that was done
        self.has_given_up = False
        self.connection = psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")
        for key, limit in LIMITS.items():
            self.query(
                "SELECT set_limit(%s, %s, %s, CASE WHEN %s THEN interval '1 s' END, %s)::text",
                key, limit.get("slots"), limit.get("rate"), "rate" in limit, limit.get("burst"),
            )  # fmt: skip
        for group, weight in WEIGHTS.items():
            self.query("SELECT set_group(%s, %s)::text", group, weight)
        self.workers = {self.spawn("work", queues): queues for queues in WORKERS}
        self.producers: set[Process] = set()
        self.faults = deque[Callable[[], bool]](
            [self.put_a_worker_to_sleep, self.kill_a_worker, self.kill_a_producer]
        )
        # Since when, and the jobs that it ran, with their fences.
        self.asleep: dict[Process, tuple[int, dict[int, int]]] = {}

    def begin(self) -> None:
        """Start the producers, and count the time from the first job: starting may take longer."""
        self.committed.clear()
        for _ in range(PRODUCERS):
            self.add_producer(SECONDS)
        deadline = time.monotonic() + LIMIT
        while not self.committed:
            assert time.monotonic() < deadline, "the producers do not start"
            time.sleep(0.05)
            self.note_commits()
        self.until = time.monotonic() + SECONDS

    def add_producer(self, seconds: float) -> None:
        self.producers.add(self.spawn("produce", f"{SEED} {len(self.names)}", str(seconds)))

    def await_workers(self) -> None:
        """Wait until all workers have registered. Before that, a signal would just kill them."""
        deadline = time.monotonic() + LIMIT
        while self.query("SELECT count(*) FROM workers") != [(len(WORKERS),)]:
            assert time.monotonic() < deadline, "the workers do not start"
            time.sleep(0.05)

    def spawn(self, role: str, *arguments: str) -> Process:
        who = f"{role}.{len(self.names)}"
        self.history.write("spawned", victim=who)
        command = [sys.executable, "-m", "tests.stress.stress_app", role, *arguments]
        settings = {**os.environ, "INTURN_DSN": self.app_dsn,
                    **environment(self.folder, SEED, who)}  # fmt: skip
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2], env=settings)
        self.names[process] = who
        return process

    def query(self, statement: Any, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters or None).fetchall()

    def close(self) -> None:
        for process in (*self.workers, *self.producers):
            process.kill()
            process.wait()
        self.connection.close()

    def go_on(self) -> None:
        next_fault = time.monotonic() + 1.5
        while time.monotonic() < self.until:
            self.note_commits()
            self.wake_those_who_slept_enough()
            if time.monotonic() > next_fault and self.faults[0]():
                self.faults.rotate(-1)
                next_fault = time.monotonic() + 1.2
            self.dice.choice(
                [
                    self.cancel, self.cancel, self.pause, self.resume,
                    self.look_after_halted_lanes, self.look_after_held_jobs, self.give_a_batch_up,
                ]
            )()  # fmt: skip
            time.sleep(0.05)

    def note_commits(self) -> None:
        for event in self.tail.look():
            if event.name == "inserted":
                self.inserted[event.facts["op"]] = event.facts["ids"]
            elif event.name == "ok":
                self.committed.extend(self.inserted.pop(event.facts["op"]))
            elif event.name == "begin":
                job, fence = event.facts["job"], event.facts["fence"]
                self.begun[job] = max(fence, self.begun.get(job, 0))

    def drain(self) -> None:
        """Wait until the producers have ended and their jobs are done, and write down how."""
        assert [producer.wait(LIMIT) for producer in self.producers] == [0] * PRODUCERS
        self.producers.clear()
        deadline = time.monotonic() + LIMIT
        while self.query(LEFT):
            self.wake_those_who_slept_enough()
            self.look_after_halted_lanes()
            self.look_after_held_jobs()
            self.close_batches()
            for lock in self.lanes("paused"):
                self.operate("SELECT resume_lane(%s)", lock)
            assert time.monotonic() < deadline, f"left: {[*map(self.query, WHY_LEFT)]}"
            time.sleep(0.05)
        while self.asleep:
            self.wake_those_who_slept_enough()
            time.sleep(0.05)
        for job, fence, status in self.query(
            "SELECT id, fence, status::text FROM finished_jobs WHERE id > %s ORDER BY id", self.last
        ):
            self.history.write("final", job=job, fence=fence, status=status)
            self.last = job
        self.note_commits()

    def is_still_missing(self) -> bool:
        """Say whether something rare has not happened yet: a slow machine has time for little."""
        counts = count_all(collect(self.tail.events))
        return not all(counts.get(name) for name in RARE)

    def end(self) -> None:
        self.await_workers()
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(LIMIT) for worker in self.workers] == [0] * len(WORKERS)

    # -- what happens to processes

    def put_a_worker_to_sleep(self) -> bool:
        worker = self.caught_in_a_job()
        return worker is not None

    def kill_a_worker(self) -> bool:
        worker = self.caught_in_a_job()
        if worker is None:
            return False
        del self.asleep[worker]
        queues = self.workers.pop(worker)
        self.kill(worker)
        self.workers[self.spawn("work", queues)] = queues
        return True

    def kill_a_producer(self) -> bool:
        producer = self.producers.pop()
        self.kill(producer)
        self.add_producer(max(0, self.until - time.monotonic()))
        return True

    def kill(self, process: Process) -> None:
        process.kill()
        process.wait()
        self.history.write("killed", victim=self.names[process])

    def caught_in_a_job(self) -> Process | None:
        """Stop a worker that runs something.

        One that runs nothing goes on at once. Two stay awake.
        """
        awake = [worker for worker in self.workers if worker not in self.asleep]
        worker = self.dice.choice(awake)
        since = time.monotonic_ns()
        if len(awake) <= 2:
            return None
        worker.send_signal(signal.SIGSTOP)
        os.waitpid(worker.pid, os.WUNTRACED)
        self.note_commits()
        running = self.tail.running[self.names[worker]]
        if not running:
            worker.send_signal(signal.SIGCONT)
            return None
        jobs = {job: fence for job, fence in self.begun.items() if fence in running}
        self.asleep[worker] = since, jobs
        return worker

    def wake_those_who_slept_enough(self) -> None:
        """Let a stopped worker go on when it counts as dead and others run one of its jobs."""
        for worker, (since, jobs) in list(self.asleep.items()):
            now = time.monotonic_ns()
            if now > since + STALLED * SECOND and self.is_taken_over(jobs):
                span = {"victim": self.names[worker], "start": since, "end": now}
                self.history.write("silent", how="stopped", **span)
                worker.send_signal(signal.SIGCONT)
                del self.asleep[worker]

    def is_taken_over(self, jobs: dict[int, int]) -> bool:
        """Say whether others have begun one of these jobs, or none is left for them."""
        self.note_commits()
        return any(self.begun[job] != fence for job, fence in jobs.items()) or not self.query(
            "SELECT FROM jobs WHERE id = ANY(%s)", [*jobs]
        )

    # -- what people do

    def cancel(self) -> None:
        if self.committed:
            job = self.dice.choice(self.committed)
            if self.query("SELECT status FROM jobs WHERE id = %s", job) and self.query(
                "SELECT cancel_job(%s)::text", job
            ) == [("cancelled",)]:
                self.history.write("cancelled", job=job)

    def pause(self) -> None:
        lane, seconds = self.dice.choice(LANES), self.dice.choice([0.2, 0.5, None])
        called = time.monotonic_ns()
        with self.connection.transaction():
            if self.query(
                "SELECT pause_lane(%s, 'stress', now() + %s * interval '1 s')", lane, seconds
            ) == [(False,)]:
                return
            [(fence,)] = self.query("SELECT last_value FROM fences")
        until = None if seconds is None else called + int(seconds * SECOND)
        self.history.write("paused", lane=lane, called=called, until=until, fence=fence)

    def resume(self) -> None:
        for lock in self.lanes("paused"):
            if self.dice.random() < 0.5:
                self.operate("SELECT resume_lane(%s)", lock)

    def look_after_halted_lanes(self) -> None:
        for lock in self.lanes("halted"):
            statements = [
                "SELECT skip_head(%s)",
                "SELECT skip_head(%s)",
                "SELECT resume_lane(%s)",
                "SELECT retry_head(%s)",
            ]
            statement = self.dice.choice(statements)
            for (job,) in self.operate(statement, lock):
                if "retry_head" in statement and job is not None:
                    self.history.write("retried", job=job)

    def lanes(self, stopped: str) -> list[str]:
        """Return the lanes that are paused or halted, whoever has them still."""
        rows = self.query("SELECT lock FROM lanes WHERE stopped::text = %s", stopped)
        return [lock for (lock,) in rows]

    def look_after_held_jobs(self) -> None:
        """Let jobs go that a failure holds up, or retry what has failed if it is in no lane."""
        seen: set[int] = set()
        for child, parent, is_free in self.query(HELD):
            if not {child, parent} & seen:
                seen |= {child, parent}
                job = parent if is_free else child
                if not is_free:
                    self.history.write("let_go", job=job)
                # Also a job that is let go: it may have expired, or been cancelled, just before.
                self.history.write("retried", job=job)
                self.query("SELECT retry_job(%s)", job)

    def give_a_batch_up(self) -> None:
        """Cancel one of the batches now and then: its callback, and its jobs that wait."""
        if self.has_given_up and self.dice.random() < 0.8:
            return
        for (batch,) in self.query("SELECT id FROM batches WHERE ended_at IS NULL LIMIT 1"):
            self.has_given_up = True
            self.history.write("given_up", batch=batch)
            last: int | None = 0
            while last is not None:
                [(last,)] = self.query("SELECT last FROM cancel_batch(%s, %s)", batch, last)

    def close_batches(self) -> None:
        """Close the batches that producers have left open when they died."""
        for (batch,) in self.query("SELECT id FROM batches WHERE closed_at IS NULL"):
            self.history.write("closed", batch=batch)
            self.query("SELECT close_batch(%s)", batch)

    def operate(self, statement: Any, lock: str) -> list[tuple[Any, ...]]:
        called = time.monotonic_ns()
        rows = self.query(statement, lock)
        self.history.write("resumed", lane=lock, called=called)
        return rows


@pytest.mark.parametrize("is_there", [True, False], ids=["a parent", "a parent without a row"])
def test_a_job_that_a_failure_holds_up_is_found(dsn: str, is_there: bool) -> None:
    """Without its parent's row it was not, and the run ended with jobs that were left."""
    with closing(Engine(dsn)) as engine:
        parent = engine.defer()
        [(child,)] = engine.query(
            "SELECT defer('t', after => ARRAY[%s::bigint], on_parent => 'hold')", parent
        )
        engine.fail(engine.claim(), None, "no")
        engine.query("SELECT * FROM claim(register_worker('v', 'here', 1, NULL, 1), NULL, 9)")
        if not is_there:
            engine.query("SELECT delete_job(%s)", parent)
        assert engine.query(HELD) == [(child, parent, is_there)]
        for statement in WHY_LEFT:
            engine.query(statement)


@pytest.mark.proof
def test_everything_at_once_with_processes_that_are_killed_and_stopped(
    dsn: str, app_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        play = Play(dsn, app_dsn, tmp_path)
        stack.callback(play.close)
        play.await_workers()
        for _ in range(TURNS):
            play.begin()
            play.go_on()
            play.drain()
            if not play.is_still_missing():
                break
        play.end()
        [(deadlocks,)] = play.query(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        repaired = play.query("SELECT * FROM lane_audit WHERE starts_with(operation, 'reconcile')")
        halted = play.query(
            "SELECT count(*) FROM lane_audit WHERE operation IN ('skip-head', 'retry-head')"
        )[0][0]
        left = play.query(LEFT)
        verified = play.query(VERIFY)
    play.history.close()
    verdict = check(tmp_path)
    counts = {"seconds": int(SECONDS), "seed": SEED, "jobs": len(verdict.evidence.finals),
              "runs": len(verdict.evidence.runs), "halted lanes looked after": halted,
              **{name: verdict.counts.get(name, 0) for name in RARE}}  # fmt: skip
    with capsys.disabled():
        print("\n" + "\n".join(f"  {name:56}{value}" for name, value in counts.items()))
    assert verdict.passes, describe(verdict)
    assert (left, repaired, deadlocks) == ([], [], 0), f"SEED={SEED}"
    assert [row for row in verified if row[0] == "broken"] == [], f"SEED={SEED}"
    assert verified[-1][-1] > 0
