"""Some seconds of everything at once, and a judge of what was seen from outside.

Workers crash in the middle of transactions or with jobs in hand. They are declared dead while they
live, and send reports that are then refused. Producers commit late, roll back and defer batches.
In the end, every committed job must have been done once, in the order of its lane, and nothing may
be left behind.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.errors import NoDataFound

from inturn.sql import SCHEMA
from tests.evidence.events import Memory
from tests.evidence.judge import describe, judge

SECONDS = 8.0  # of producing; what is left then is worked off
LONGEST = 60.0  # seconds of producing, until each rare event was seen
PATIENCE = 240.0  # for the whole; a run that hangs has lost a job or a lane
BACKLOG = 300  # so much may wait before producers slow down

EQUALS = [f"equal {n}" for n in range(5)]
RANKED = [f"ranked {n}" for n in range(3)]
GROUPS = [None, None, "large", "large", "small"]
QUEUES = ["x", "y"]

RARE = ["crash in a claim", "crash in a finish", "crash with jobs", "refused", "rescued",
        "handed over",
        "retried", "retried later", "rolled back", "claim refused"]  # fmt: skip

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass
class Run:
    """What the threads share."""

    dsn: str
    seed: str
    history: Memory = field(default_factory=Memory)
    seen: Counter[str] = field(default_factory=Counter)
    calls: "count[int]" = field(default_factory=count)
    producers: threading.Event = field(default_factory=threading.Event)  # they are through
    over: threading.Event = field(default_factory=threading.Event)
    began: float = field(default_factory=time.monotonic)

    def connect(self) -> Connection:
        return psycopg.connect(
            self.dsn, autocommit=True, options=f"-c search_path={SCHEMA},pg_temp"
        )

    def dice(self, name: str) -> random.Random:
        return random.Random(f"{self.seed} {name}")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def goes_on(self) -> bool:
        return not self.over.is_set() and (
            self.seconds < SECONDS
            or (self.seconds < LONGEST and not all(self.seen[rare] for rare in RARE))
        )

    def backlog(self) -> int:
        return self.seen["deferred"] - self.seen["rolled back"] - self.seen["finished"]


class Producer:
    def __init__(self, run: Run, name: str) -> None:
        self.run, self.dice = run, run.dice(name)

    def work(self) -> None:
        with self.run.connect() as connection:
            while self.run.goes_on:
                self.defer(connection)
                if self.run.backlog() > BACKLOG:
                    connection.execute("SELECT pg_sleep(0.02)")

    def defer(self, connection: Connection) -> None:
        """One call in a transaction that often commits late, and sometimes not at all."""
        lane = self.dice.choice([None, *EQUALS, *RANKED])
        n = self.dice.choice([1, 1, 1, 2, 5])
        priorities = [self.dice.choice([0, 0, 1]) if lane in RANKED else 0 for _ in range(n)]
        scheduled = self.dice.random() < 0.05
        called, op, answer = time.monotonic_ns(), next(self.run.calls), "ok"
        connection.execute("BEGIN")
        rows = connection.execute(
            "SELECT id FROM defer_jobs(%s, %s::jsonb[], %s, %s::text[], %s::int[], %s::timestamptz[], "
            "%s::interval[], p_group_keys => %s::text[])",
            [["task"] * n, ["{}"] * n, [self.dice.choice(QUEUES)] * n, [lane] * n, priorities,
             [None] * n,
             ["10 ms" if scheduled else None] * n, [self.dice.choice(GROUPS)] * n],
        ).fetchall()  # fmt: skip
        if self.dice.random() < 0.3:
            connection.execute("SELECT pg_sleep(%s)", [self.dice.random() * 0.02])
        if self.dice.random() < 0.05:
            connection.execute("ROLLBACK")
            answer = "fail"
            self.run.seen["rolled back"] += n
        else:
            connection.execute("COMMIT")
        specs = [{"priority": priority, "later": scheduled} for priority in priorities]
        self.note(answer, op=op)
        self.note("call", at=called, op=op, lane=lane, jobs=specs)
        self.note("inserted", op=op, ids=[job for (job,) in rows])
        self.run.seen["deferred"] += n

    def note(self, name: str, **facts: Any) -> None:
        self.run.history.write("producer", name, **facts)


@dataclass(frozen=True)
class Held:
    job: int
    claim: object
    fence: int


class Worker:
    """Many workers, one after the other: each crash and each declaration of death ends one."""

    def __init__(self, run: Run, name: str, queues: list[str] | None) -> None:
        self.run, self.name, self.queues, self.dice = run, name, queues, run.dice(name)
        self.register()

    def register(self) -> None:
        self.held: list[Held] = []
        self.connection = self.run.connect()
        row = self.connection.execute(
            "SELECT register_worker('w', 'h', 1, %s::text[], 4)", [self.queues]
        ).fetchone()
        assert row
        (self.id,) = row

    def work(self) -> None:
        weights: dict[Callable[[], object], int] = {
            self.crash_in_a_claim: 2,
            self.crash_in_a_finish: 2,
            self.crash_with_jobs: 2,
            self.be_taken_for_dead: 3,
            self.retry: 10,
            self.claim: 30,
            self.finish: 150,
        }
        while not self.run.over.is_set():
            [act] = self.dice.choices(list(weights), list(weights.values()))
            act()
            if not self.held:
                self.claim()
        self.connection.close()

    # -- what workers do

    def claim(self) -> None:
        limit = self.dice.randint(1, 4)
        rows = self.connection.execute(
            "SELECT id, claim_id, fence, attempts FROM claim(%s, %s::text[], %s)",
            [self.id, self.queues, limit],
        ).fetchall()
        assert len(rows) <= limit
        self.take(rows)

    def finish(self) -> int:
        """Everything in hand at once. Returns how much was accepted."""
        ended, self.held = self.held, []
        called = time.monotonic_ns()
        rows = self.connection.execute(*self.finishing(ended)).fetchall()
        following = [row[2:] for row in rows if row[2] is not None]
        self.take(following)
        self.keep(ended, [row[1] for row in rows])
        self.run.seen["handed over"] += len(following)
        done = [held for held in ended if held.job in {row[0] for row in rows}]
        for held in done:
            self.note("end", at=called, job=held.job, fence=held.fence, how="ok")
            self.note("final", job=held.job, fence=held.fence, status="succeeded")
        self.run.seen["finished"] += len(done)
        return len(done)

    def finishing(self, ended: list[Held]) -> tuple[LiteralString, list[object]]:
        jobs, claims, n = [held.job for held in ended], [held.claim for held in ended], len(ended)
        want = self.dice.choice([0, n, n, n])
        return (
            "SELECT finished_id, busy_id, (next).id, (next).claim_id, (next).fence, (next).attempts "
            "FROM finish(%s, %s::text[], %s, %s::bigint[], %s::uuid[], %s::job_status[], %s::jsonb[])",
            [self.id, self.queues, want, jobs, claims, ["succeeded"] * n, [None] * n],
        )

    def retry(self) -> None:
        ended, self.held = self.held, []
        delays = [self.dice.choice(["0", "0", "5 ms", "20 ms"]) for _ in ended]
        called = time.monotonic_ns()
        rows = self.connection.execute(
            "SELECT id, busy FROM retry(%s::bigint[], %s::uuid[], %s::interval[], %s::jsonb[])",
            [
                [held.job for held in ended],
                [held.claim for held in ended],
                delays,
                [None] * len(ended),
            ],
        ).fetchall()
        self.keep(ended, [job for job, busy in rows if busy])
        for held in ended:
            if (held.job, False) in rows:
                self.note("end", at=called, job=held.job, fence=held.fence, how="put back")
        self.run.seen["retried"] += delays.count("0")
        self.run.seen["retried later"] += len(delays) - delays.count("0")

    # -- what happens to them

    def crash_in_a_claim(self) -> None:
        self.connection.execute("BEGIN")
        self.connection.execute("SELECT FROM claim(%s, %s::text[], 4)", [self.id, self.queues])
        self.crash("crash in a claim")

    def crash_in_a_finish(self) -> None:
        self.connection.execute("BEGIN")
        self.connection.execute(*self.finishing(self.held))
        self.crash("crash in a finish")

    def crash_with_jobs(self) -> None:
        self.crash("crash with jobs")

    def crash(self, how: str) -> None:
        self.run.seen[how] += 1
        self.connection.close()
        with self.run.connect() as connection:
            connection.execute("DELETE FROM workers WHERE id = %s", [self.id])
        self.register()

    def be_taken_for_dead(self) -> None:
        """It lives and does not know. Its reports are refused, and it may not claim any more."""
        self.connection.execute("DELETE FROM workers WHERE id = %s", [self.id])
        if self.dice.random() < 0.7:
            mine = len(self.held)
            rescue(self.run, self.connection)
            # A rescue leaves what somebody has locked at this moment.
            rows = self.connection.execute("SELECT FROM jobs WHERE worker_id = %s", [self.id])
            assert self.finish() <= rows.rowcount, (
                "a job was taken back, and yet its finish accepted"
            )
            self.run.seen["refused"] += mine
        else:
            self.finish()  # before a rescuer comes, or after
        with pytest.raises(NoDataFound):
            self.claim()
        self.run.seen["claim refused"] += 1
        self.connection.close()
        self.register()

    # -- what is written down

    def take(self, rows: list[tuple[Any, ...]]) -> None:
        replied = time.monotonic_ns()
        for job, claim, fence, attempt in rows:
            self.note("begin", at=replied, job=job, fence=fence, attempt=attempt)
            self.held.append(Held(job, claim, fence))

    def keep(self, ended: list[Held], busy: list[int]) -> None:
        """On a busy machine a claim may have a lane locked for so long that nothing was reported."""
        self.held += [held for held in ended if held.job in busy]

    def note(self, name: str, **facts: Any) -> None:
        self.run.history.write(self.name, name, **facts)


def rescue(run: Run, connection: Connection) -> None:
    called = time.monotonic_ns()
    rows = connection.execute("SELECT id FROM rescue(p_lost => false)").fetchall()
    for (job,) in rows:
        run.history.write("rescuer", "end", at=called, job=job, how="rescued")
    run.seen["rescued"] += len(rows)


def rescue_until_over(run: Run) -> None:
    """The rescuer. It also decides when the run is over: no producer is left, and no job."""
    with run.connect() as connection:
        while not run.over.is_set():
            rescue(run, connection)
            connection.execute("SELECT pg_sleep(0.02)")
            if (
                run.producers.is_set()
                and connection.execute("SELECT FROM jobs LIMIT 1").fetchone() is None
            ):
                run.over.set()


def produce_all(run: Run) -> None:
    with ThreadPoolExecutor(2) as pool:
        for producer in [pool.submit(Producer(run, f"producer {n}").work) for n in range(2)]:
            producer.result()
    run.producers.set()


# ---------------------------------------------------------------- the tests


def test_everything_at_once_keeps_every_promise(dsn: str) -> None:
    seed = os.environ.get("INTURN_TEST_SEED", str(time.time_ns()))
    run = Run(dsn, seed)
    run.history.write("conductor", "settings", every_start=True)
    queues = [None, None, QUEUES, QUEUES[:1]]
    workers = [Worker(run, f"worker {n}", served) for n, served in enumerate(queues)]
    with ThreadPoolExecutor(6) as pool:
        threads = [pool.submit(rescue_until_over, run), pool.submit(produce_all, run)]
        threads += [pool.submit(worker.work) for worker in workers]
        wait(threads, timeout=PATIENCE, return_when=FIRST_EXCEPTION)
        run.over.set()
    for thread in threads:
        thread.result()  # raises what went wrong in it, a deadlock for one

    with run.connect() as connection:
        left = connection.execute(
            "SELECT id, status::text, lock, queue FROM jobs ORDER BY id"
        ).fetchall()
        lanes = connection.execute("SELECT * FROM lanes").fetchall()
        done = connection.execute(
            "SELECT count(*), count(DISTINCT id) FROM finished_jobs"
        ).fetchone()
    context = f"INTURN_TEST_SEED={seed} {dict(run.seen)}"
    committed = run.seen["deferred"] - run.seen["rolled back"]
    assert left == [], context
    assert lanes == [], context
    assert done == (committed, committed), context
    verdict = judge(run.history.events)
    assert verdict.word == "valid", f"{context}: {describe(verdict)}"
    assert len(verdict.evidence.finals) == committed, context
    assert [rare for rare in RARE if not run.seen[rare]] == [], (
        context
    )  # a run without them proves little
