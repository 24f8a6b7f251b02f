"""Everything at once, with real processes. A checker judges what they logged (ledger.py).

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
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.stress.batch_ledger import batch_violations, batches_seen
from tests.stress.flow_ledger import LIMITS, flow_violations, seen
from tests.stress.group_ledger import WEIGHTS, group_violations, groups_seen
from tests.stress.ledger import (
    FOR_EVER,
    Job,
    Ledger,
    Pause,
    Run,
    Span,
    facts,
    lanes_seen,
    read,
    violations,
    write,
    zombies,
)
from tests.stress.stress_app import LANES, STALLED

SECONDS = float(os.environ.get("INTURN_STRESS_SECONDS") or 9)
SEED = os.environ.get("INTURN_STRESS_SEED") or str(time.time_ns())
LIMIT = 90.0  # seconds for what is left in the end; only keeps a failing test from hanging
WORKERS = ["", "", "x", "x,y"]  # the queues that they serve
PRODUCERS = 2

HELD = """
SELECT edges.child, edges.parent, parent.lock IS NULL
FROM edges JOIN finished_jobs AS parent ON parent.id = edges.parent
WHERE edges.failed AND parent.status <> 'succeeded' ORDER BY edges.child
"""
LEFT = """
SELECT 'job', id::text FROM jobs UNION ALL SELECT 'lane', lock FROM lanes
UNION ALL SELECT 'edge', child::text FROM edges UNION ALL SELECT 'end', job_id::text FROM ends
UNION ALL SELECT 'limit', key FROM limit_keys WHERE used <> 0
UNION ALL SELECT 'line', lock::text FROM waits
UNION ALL SELECT 'batch', id::text FROM batches WHERE ended_at IS NULL
UNION ALL SELECT 'gate', batch_id::text FROM batch_gates
UNION ALL SELECT 'event', batch_id::text FROM batch_events
"""
WHY_LEFT = [
    "SELECT job_id, reason, detail FROM (SELECT id FROM jobs ORDER BY id LIMIT 20) AS job(job_id) "
    "CROSS JOIN LATERAL explain(job_id)",
    "SELECT edges.*, parent.status FROM edges "
    "LEFT JOIN all_jobs AS parent ON parent.id = edges.parent LIMIT 20",
    "SELECT * FROM lanes LIMIT 20",
]

Process = subprocess.Popen[bytes]


class Tail:
    """The new entries of a log, read again and again."""

    def __init__(self, log: Path) -> None:
        log.touch()
        self.file = log.open()
        self.rest = ""  # of a line that is just being written
        self.running: defaultdict[int, set[int]] = defaultdict(
            set
        )  # the fences of what a process runs
        self.committed: deque[int] = deque(maxlen=30)

    def look(self) -> None:
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        for fact in facts(lines):
            match fact["event"]:
                case "start":
                    self.running[fact["pid"]].add(fact["fence"])
                case "end":
                    self.running[fact["pid"]].discard(fact["fence"])
                case "commit":
                    self.committed.extend(fact["jobs"])


class Play:
    """The processes, and what is done to them."""

    def __init__(self, dsn: str, app_dsn: str, log: Path) -> None:
        self.app_dsn, self.log = app_dsn, log
        self.dice, self.tail = random.Random(SEED), Tail(log)
        self.until = 0.0
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
        self.asleep: dict[Process, float] = {}  # since when

    def begin(self) -> None:
        """Start the producers when all workers are there, which takes long on a busy machine."""
        self.await_workers()
        self.until = time.monotonic() + SECONDS
        self.producers |= {
            self.spawn("produce", f"{SEED} {n}", str(self.until)) for n in range(PRODUCERS)
        }

    def await_workers(self) -> None:
        """Wait until all workers have registered. Before that, a signal would just kill them."""
        deadline = time.monotonic() + LIMIT
        while self.query("SELECT count(*) FROM workers") != [(len(WORKERS),)]:
            assert time.monotonic() < deadline, "the workers do not start"
            time.sleep(0.05)

    def spawn(self, *arguments: str) -> Process:
        environment = os.environ | {"INTURN_DSN": self.app_dsn, "STRESS_LOG": str(self.log)}
        root = Path(__file__).parents[2]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.stress.stress_app", *arguments], cwd=root, env=environment
        )

    def query(self, statement: Any, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters or None).fetchall()

    def close(self) -> None:
        for process in (*self.workers, *self.producers):
            process.kill()
            process.wait()
        self.connection.close()
        self.tail.file.close()

    def go_on(self) -> None:
        faults: list[Callable[[], bool]] = [
            self.put_a_worker_to_sleep,
            self.kill_a_worker,
            self.kill_a_producer,
        ]
        turn, next_fault = 0, time.monotonic() + 1.5
        while time.monotonic() < self.until:
            self.tail.look()
            self.wake_those_who_slept_enough()
            if time.monotonic() > next_fault and faults[turn % 3]():
                turn, next_fault = turn + 1, time.monotonic() + 1.2
            self.dice.choice(
                [
                    self.cancel, self.cancel, self.pause, self.resume,
                    self.look_after_halted_lanes, self.look_after_held_jobs, self.give_a_batch_up,
                ]
            )()  # fmt: skip
            time.sleep(0.05)

    def end(self) -> None:
        """Wait until the producers end, the remaining jobs are done, and the workers leave."""
        assert [producer.wait(LIMIT) for producer in self.producers] == [0] * PRODUCERS
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
        self.await_workers()
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(LIMIT) for worker in self.workers] == [0] * len(WORKERS)
        for job, fence, status in self.query("SELECT id, fence, status::text FROM finished_jobs"):
            write(self.log, "final", job=job, fence=fence, status=status)

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
        self.producers.add(self.spawn("produce", f"{SEED} {time.monotonic()}", str(self.until)))
        return True

    def kill(self, process: Process) -> None:
        process.kill()
        process.wait()
        write(self.log, "kill", victim=process.pid)

    def caught_in_a_job(self) -> Process | None:
        """Stop a worker that runs something.

        One that runs nothing goes on at once. Two stay awake.
        """
        awake = [worker for worker in self.workers if worker not in self.asleep]
        worker = self.dice.choice(awake)
        since = time.monotonic()
        if len(awake) <= 2:
            return None
        worker.send_signal(signal.SIGSTOP)
        os.waitpid(worker.pid, os.WUNTRACED)
        self.tail.look()
        if not self.tail.running[worker.pid]:
            worker.send_signal(signal.SIGCONT)
            return None
        self.asleep[worker] = since
        return worker

    def wake_those_who_slept_enough(self) -> None:
        """Wait until the stopped workers are declared dead and others have their jobs."""
        for worker, since in list(self.asleep.items()):
            if time.monotonic() > since + STALLED + 1.5:
                write(self.log, "stop", victim=worker.pid, start=since, end=time.monotonic())
                worker.send_signal(signal.SIGCONT)
                del self.asleep[worker]

    # -- what people do

    def cancel(self) -> None:
        if self.tail.committed:
            job = self.dice.choice(self.tail.committed)
            if self.query("SELECT status FROM jobs WHERE id = %s", job) and self.query(
                "SELECT cancel_job(%s)::text", job
            ) == [("cancelled",)]:
                write(self.log, "cancel", job=job)

    def pause(self) -> None:
        lane, seconds = self.dice.choice(LANES), self.dice.choice([0.2, 0.5, None])
        called = time.monotonic()
        with self.connection.transaction():
            if self.query(
                "SELECT pause_lane(%s, 'stress', now() + %s * interval '1 s')", lane, seconds
            ) == [(False,)]:
                return
            [(fence,)] = self.query("SELECT last_value FROM fences")
        until = FOR_EVER if seconds is None else called + seconds
        write(self.log, "pause", lane=lane, called=called, until=until, fence=fence)

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
                    write(self.log, "retry", job=job)

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
                write(self.log, "retry" if is_free else "free", job=job)
                self.query("SELECT retry_job(%s)", job)

    def give_a_batch_up(self) -> None:
        """Cancel one of the batches now and then: its callback, and its jobs that wait."""
        if self.has_given_up and self.dice.random() < 0.8:
            return
        for (batch,) in self.query("SELECT id FROM batches WHERE ended_at IS NULL LIMIT 1"):
            self.has_given_up = True
            write(self.log, "give_up", batch=batch)
            last: int | None = 0
            while last is not None:
                [(last,)] = self.query("SELECT last FROM cancel_batch(%s, %s)", batch, last)

    def close_batches(self) -> None:
        """Close the batches that producers have left open when they died."""
        for (batch,) in self.query("SELECT id FROM batches WHERE closed_at IS NULL"):
            write(self.log, "close", batch=batch)
            self.query("SELECT close_batch(%s)", batch)

    def operate(self, statement: Any, lock: str) -> list[tuple[Any, ...]]:
        called = time.monotonic()
        rows = self.query(statement, lock)
        write(self.log, "resume", lane=lock, called=called)
        return rows


def test_everything_at_once_with_processes_that_are_killed_and_stopped(
    dsn: str, app_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with ExitStack() as stack:
        play = Play(dsn, app_dsn, log)
        stack.callback(play.close)
        play.begin()
        play.go_on()
        play.end()
        [(deadlocks,)] = play.query(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        repaired = play.query("SELECT * FROM lane_audit WHERE starts_with(operation, 'reconcile')")
        halted = play.query(
            "SELECT count(*) FROM lane_audit WHERE operation IN ('skip-head', 'retry-head')"
        )[0][0]
        left = play.query(LEFT)
    with log.open() as lines:
        ledger = read(lines)
    found = [*violations(ledger), *flow_violations(ledger), *batch_violations(ledger),
             *group_violations(ledger)]  # fmt: skip
    flow_seen = {
        **lanes_seen(ledger),
        **seen(ledger),
        **batches_seen(ledger),
        **groups_seen(ledger),
    }
    statuses = Counter(status for ends in ledger.ends.values() for _, status in ends)
    summary = {
        "seconds": int(SECONDS),
        "seed": SEED,
        "jobs ended": sum(statuses.values()),
        "of them failed": statuses["failed"],
        "of them cancelled": statuses["cancelled"],
        "runs": len(ledger.runs),
        "lanes": len({job.lane for job in ledger.jobs.values() if job.lane}),
        "commits delayed": ledger.seen["delayed"],
        "rolled back": ledger.seen["rollback"],
        "processes killed": ledger.seen["kill"],
        "processes stopped": ledger.seen["stop"],
        "zombie runs": zombies(ledger),
        "their reports refused": ledger.seen["refused"],
        "pauses": ledger.seen["pause"],
        **flow_seen,
        "halted lanes looked after": halted,
        "repaired by the reconciler": len(repaired),
        "deadlocks": deadlocks,
        "violations": len(found),
    }
    with capsys.disabled():
        print("\n" + "\n".join(f"  {name:32}{value}" for name, value in summary.items()))
    assert found == [], f"SEED={SEED}"
    assert (left, repaired, deadlocks) == ([], [], 0), f"SEED={SEED}"
    rare = ["of them failed", "of them cancelled", "commits delayed", "rolled back",
            "processes killed", "processes stopped",
            "their reports refused", "pauses", *flow_seen]  # fmt: skip
    assert [name for name in rare if not summary[name]] == [], "a run without them proves little"


# ---------------------------------------------------------------- the checker


A, B = 1, 2  # processes


def ledger(*runs: Run, **changes: Any) -> Ledger:
    """Two jobs of a lane, deferred one after the other, and how they end."""
    jobs = {n: Job(n, "equal", 0, False, f"call {n}", 0, n, n + 0.5) for n in (1, 2)}
    ends: dict[int, list[tuple[int | None, str]]] = {n: [] for n in jobs}
    for run in sorted(runs, key=lambda run: run.fence):
        ends[run.job] = [(run.fence, "succeeded")]
    made = Ledger(jobs, list(runs), defaultdict(list, ends))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


FIRST, SECOND = Run(1, 11, A, 10, 20), Run(2, 12, B, 21, 30)
SLEPT = defaultdict(list, {A: [Span(15, 22)]})
ENDED_TWICE = ledger(FIRST, SECOND)
ENDED_TWICE.ends[1].append((11, "succeeded"))
BORN_AT_ONCE = [Job(n, "equal", 0, False, "call", n, 1, 1.5) for n in (1, 2)]
ROLLED_BACK = replace(BORN_AT_ONCE[0], committed=FOR_EVER)

FORGED = {
    "lost": (ledger(FIRST), "job 2 was committed and never ended"),
    "from nowhere": (ledger(FIRST, SECOND, Run(3, 13, A, 31, 32)), "job 3 was never committed"),
    "rolled back": (ledger(FIRST, SECOND, jobs={1: ROLLED_BACK, 2: BORN_AT_ONCE[1]}),
                    "job 1 was never committed"),
    "ended twice": (ENDED_TWICE, "job 1 ended 2 times"),
    "never ran": (ledger(SECOND, ends={1: [(11, "succeeded")], 2: [(12, "succeeded")]}),
                  "job 1 succeeded and never ran"),
    "accepted from a zombie": (
        ledger(FIRST, replace(FIRST, fence=12, pid=B, start=19, end=25),
               replace(SECOND, fence=13, start=26),
               ends={1: [(11, "succeeded")], 2: [(13, "succeeded")]}, stopped=SLEPT),
        "job 1: the end of attempt 11 was accepted, the last one was 12",
    ),
    "accepted unended": (ledger(replace(FIRST, end=None), SECOND, killed={A: 20}),
                         "attempt that did not end"),
    "overlap": (ledger(FIRST, replace(SECOND, start=19)), "job 2 (process 2) started while job 1"),
    "overlap of a process that was stopped later": (
        ledger(FIRST, replace(SECOND, start=14), stopped=SLEPT),
        "job 2 (process 2) started while job 1"),
    "overlap long after a process was woken and stopped again": (
        ledger(Run(1, 11, A, 30, 40), Run(1, 12, B, 17, 18), Run(2, 13, B, 19, 20),
               stopped=defaultdict(list, {A: [Span(10, 15), Span(25, 29)]})),
        "job 2 (process 2) started while job 1"),
    "overlap with the dead": (
        ledger(replace(FIRST, end=None), replace(FIRST, fence=12, pid=B, start=14),
               replace(SECOND, fence=13), killed={A: 15}),
        "job 1 (process 2) started while job 1"),
    "overlap with one long before": (
        ledger(replace(FIRST, end=40), replace(FIRST, fence=12, start=50, end=60),
               replace(SECOND, fence=13),
               stopped={A: [], B: []}), "job 2 (process 2) started while job 1"),
    "wrong order": (ledger(replace(FIRST, fence=13, start=31, end=32), SECOND),
                    "job 1 was there before job 2"),
    "wrong order in a call": (
        ledger(replace(FIRST, fence=13, start=31, end=32), SECOND,
               jobs=dict(enumerate(BORN_AT_ONCE, 1))), "same call goes before"),
    "overtaken in a retry": (ledger(FIRST, SECOND, replace(FIRST, fence=13, start=31, end=32)),
                             "between the attempts of job 1"),
    "neither ended nor killed": (ledger(replace(FIRST, end=None), SECOND),
                                 "neither ended nor was its process 1 killed"),
    "cancelled": (ledger(FIRST, SECOND, cancelled={2: Span(20.5, FOR_EVER)}),
                  "job 2 started after it was cancelled"),
    "cancelled, and retried too late": (ledger(FIRST, SECOND, cancelled={2: Span(20.5, 21.5)}),
                                        "job 2 started after it was cancelled"),
    "torn": (ledger(FIRST, SECOND, seen=defaultdict(int, torn=1)), "1 torn lines and fewer deaths"),
    "paused": (ledger(FIRST, SECOND, pauses={"equal": [Pause(19, 25, 11)]}),
               "job 2 was claimed and started in a pause"),
}  # fmt: skip


def with_limit(key: str, *runs: Run, **changes: Any) -> Ledger:
    """Jobs without a lane that have this limit."""
    made = ledger(*runs, **changes)
    for run in runs:
        made.jobs[run.job] = Job(run.job, None, 0, False, "call", 0, 0, 1, 0.5, limit=key)
    return made


def family(on_parent: str, *runs: Run, end: str = "succeeded", **changes: Any) -> Ledger:
    """Job 2 comes after job 1."""
    made = ledger(*runs, **changes)
    made.jobs = {n: replace(job, lane=None) for n, job in made.jobs.items()}
    made.jobs[2].after, made.jobs[2].on_parent = (1,), on_parent
    made.ends[1] = [(11, end)]
    return made


def expiring(*runs: Run, end: str = "succeeded") -> Ledger:
    made = ledger(*runs)
    made.jobs[2] = replace(made.jobs[2], inserted=2, expires=1.0)
    made.ends[2] = [(12, end)]
    return made


AT_ONCE = [Run(n, 10 + n, n, 10 + n / 10, 20) for n in range(4)]
AFTER_CRASH = [replace(AT_ONCE[0], end=None), *AT_ONCE[1:3]]
FORGED_FLOW = {
    "too many": (with_limit("slots", *AT_ONCE), "limit slots: job 3 started while [0, 1, 2] ran"),
    "too many, since a crash is not over": (
        with_limit("slots", *AFTER_CRASH, replace(AT_ONCE[3], start=12), killed={0: 11}),
        "limit slots: job 3 started"),
    "too often": (
        with_limit("rate", *(Run(n, 10 + n, A, 10 + n / 100, 20) for n in range(30))),
        "limit rate: 24 jobs started"),
    "before the end": (family("cancel", FIRST, replace(SECOND, start=15)),
                       "job 2 started before the end of job 1"),
    "before the next attempt": (family("go", FIRST, replace(FIRST, fence=13, start=40, end=41),
                                       SECOND), "job 2 started before the end of job 1"),
    "after a failure": (family("hold", FIRST, SECOND, end="failed"), "job 1 did not succeed"),
    "too late": (expiring(FIRST, SECOND), "job 2 started after it had expired"),
    "cancelled unasked": (expiring(FIRST, SECOND, end="cancelled"), "nobody asked for that"),
    "cancelled without a failure": (
        family("cancel", FIRST, ends=defaultdict(list, {2: [(None, "cancelled")]})),
        "nobody asked for that"),
}  # fmt: skip


@pytest.mark.parametrize(("forged", "message"), FORGED_FLOW.values(), ids=list(FORGED_FLOW))
def test_the_checker_finds_what_is_wrong_with_limits_parents_and_expiries(
    forged: Ledger, message: str
) -> None:
    found = list(flow_violations(forged))
    assert any(message in violation for violation in found), found


WELL_FLOW = {
    "three at once": with_limit("slots", *AT_ONCE[:3], replace(AT_ONCE[3], start=20)),
    "the slot of a crash was taken back": with_limit(
        "slots", *AFTER_CRASH, replace(AT_ONCE[3], start=12.6), killed={0: 11}),
    "a burst": with_limit("rate", *(Run(n, 10 + n, A, 10 + n / 100, 20) for n in range(20))),
    "many that a process had claimed when it was stopped": with_limit(
        "rate", *(Run(n, 10 + n, A, 10 + n / 100, 20) for n in range(30)),
        stopped={A: [Span(5, 10.3)]}),
    "after the end": family("cancel", FIRST, SECOND),
    "it does not mind": family("go", FIRST, SECOND, end="failed"),
    "somebody let it go": family("hold", FIRST, SECOND, end="failed", retried={2}),
    "cancelled with its parent": family(
        "cancel", FIRST, end="failed", ends=defaultdict(list, {2: [(None, "cancelled")]})),
    "expired": expiring(FIRST, end="cancelled"),
    "its second attempt": expiring(FIRST, replace(SECOND, attempt=2)),
}  # fmt: skip


@pytest.mark.parametrize("well", WELL_FLOW.values(), ids=list(WELL_FLOW))
def test_the_checker_accepts_limits_parents_and_expiries_as_promised(well: Ledger) -> None:
    assert list(flow_violations(well)) == []


@pytest.mark.parametrize(("forged", "message"), FORGED.values(), ids=list(FORGED))
def test_the_checker_finds_what_is_wrong_in_a_forged_ledger(forged: Ledger, message: str) -> None:
    found = violations(forged)
    assert any(message in violation for violation in found), found


WELL = {
    "in turn": ledger(FIRST, SECOND),
    "a zombie that was refused": ledger(
        replace(FIRST, end=23), replace(FIRST, fence=12, pid=B, start=19, end=20),
        replace(SECOND, fence=13), stopped=SLEPT),
    "a zombie that was stopped again at once": ledger(
        Run(1, 11, A, 30, 40), Run(1, 12, B, 17, 18), Run(2, 13, B, 19, 20),
        stopped=defaultdict(list, {A: [Span(10, 25), Span(25.1, 29)]})),
    "a process that was killed": ledger(
        replace(FIRST, end=None), replace(FIRST, fence=12, pid=B, start=16),
        replace(SECOND, fence=13), killed={A: 15}),
    "cancelled and retried": ledger(FIRST, SECOND, cancelled={2: Span(20.5, 20.7)}),
    "overlapping calls": ledger(
        replace(FIRST, fence=13, start=31, end=32), SECOND,
        jobs={1: BORN_AT_ONCE[0], 2: replace(BORN_AT_ONCE[1], call="other")}),
    "claimed before the pause": ledger(FIRST, SECOND, pauses={"equal": [Pause(19, 25, 12)]}),
    "started after the pause": ledger(FIRST, SECOND, pauses={"equal": [Pause(19, 20.5, 11)]}),
    "a producer that was killed": ledger(SECOND,
                                         jobs={1: replace(BORN_AT_ONCE[0], committed=None),
                                               2: BORN_AT_ONCE[1]}),
}  # fmt: skip


@pytest.mark.parametrize("well", WELL.values(), ids=list(WELL))
def test_the_checker_accepts_what_was_promised(well: Ledger) -> None:
    assert violations(well) == []


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(
        log, "insert", call="c", called=1.0, jobs=[[1, "equal", 0, False], [2, "equal", 0, False]]
    )
    write(log, "commit", jobs=[1])
    write(log, "rollback", jobs=[2])
    write(log, "start", job=1, fence=7)
    write(log, "end", fence=7)
    write(log, "pause", lane="equal", called=0.0, until=FOR_EVER, fence=6)
    write(log, "resume", lane="equal", called=FOR_EVER)
    write(log, "kill", victim=A)
    write(log, "stop", victim=A, start=1.0, end=2.0)
    write(log, "cancel", job=1)
    write(log, "retry", job=1)
    retried = time.monotonic()
    write(log, "retry", job=1)  # it has failed
    write(log, "free", job=2)
    with log.open("a") as file:
        file.write('\n{"event": "commit", "jobs": [2')  # and here its process was killed
    write(log, "final", job=1, fence=7, status="succeeded")
    with log.open() as lines:
        found = read(lines)
    assert found.jobs[1].committed != found.jobs[2].committed == FOR_EVER
    assert [(run.fence, run.end is not None) for run in found.runs] == [(7, True)]
    assert (found.ends[1], list(found.killed), found.stopped[A]) == (
        [(7, "succeeded")],
        [A],
        [Span(1.0, 2.0)],
    )
    assert found.cancelled[1].start < found.cancelled[1].end < retried
    assert found.retried == {1, 2}
    assert found.pauses["equal"][0].end == FOR_EVER
