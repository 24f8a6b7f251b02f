"""Some seconds of everything that puts jobs into lanes, beside workers that remember floors.

Before each hand-over, a worker searches its lanes from their floors and from the front in one
statement. The two must find the same jobs.
"""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg
import pytest
from psycopg.types.json import Jsonb

from inturn.database import drive
from inturn.embedded import Server
from inturn.model import Ended, Job, Status
from inturn.operations import Operation
from inturn.operations.engine import claim, finish
from inturn.schema.migrate import migrate
from inturn.sql import SCHEMA, source_file
from inturn.worker import floors
from inturn.worker.connection import WorkerConnection
from inturn.worker.floors import Floors
from tests.race.harness import Mutation, replace_once

pytestmark = [pytest.mark.proof, pytest.mark.fresh_database]

Connection = psycopg.Connection[tuple[Any, ...]]
T = TypeVar("T")
SECONDS = 20.0
MOST_SECONDS = 50.0  # until a mutant has skipped a job
LANES = ["a", "b"]
LEAST_CHECKS = 100
# A job out of line has no number, since it could come back with it.
OLD_NUMBERS = "SELECT id FROM jobs WHERE status IN ('scheduled', 'pending') AND back_id IS NOT NULL"
MUTANTS = [
    Mutation(
        "ids are final at once",
        "final_ids.sql",
        "pg_snapshot_xmin(pg_current_snapshot()) < v_horizon",
        "false",
    ),
    Mutation(
        "patience looks at no locks",
        "final_ids.sql",
        "WHERE drawn.relation = 'jobs_id_seq'::regclass",
        "WHERE false",
    ),
    Mutation(
        "an unknown horizon is over",
        "final_ids.sql",
        "IF v_horizon IS NOT NULL THEN",
        "IF v_horizon IS NOT NULL OR p_patient THEN",
    ),
    Mutation(
        "nothing is looked for behind", "line_from.sql", "HAVING count(*) > 0", "HAVING false"
    ),
    Mutation(
        "a number is final at once", "line_from.sql", "(floor.value ->> 2)::bigint", "1000000000"
    ),
]


class Run:
    """What the threads share."""

    def __init__(self, dsn: str, seed: int) -> None:
        self.dsn, self.seed = dsn, seed
        self.over = threading.Event()
        self.skips: list[object] = []
        self.seen: Counter[str] = Counter()

    def connect(self) -> Connection:
        options = f"-c search_path={SCHEMA} -c lock_timeout=3s"
        return psycopg.connect(self.dsn, autocommit=True, options=options)


class Producer:
    """Defers and changes jobs, often in transactions that stay open for a while."""

    def __init__(self, run: Run, number: int) -> None:
        self.run, self.number = run, number
        self.random = random.Random(f"{run.seed} producer {number}")
        self.connection = run.connect()
        self.prepared = 0
        self.steps = [
            *(5 * [self.defer_one]), self.defer_many, *(2 * [self.replace]), self.hold_job, self.defer_later,
            self.defer_after, self.defer_batch, self.roll_back_a_part, self.move, self.retry_ended,
            self.retry_changed, self.cancel, self.pause_lane, self.defer_limited, self.prepare,
        ]  # fmt: skip

    def work(self) -> None:
        while not self.run.over.is_set():
            step = self.random.choice(self.steps)
            try:
                self.take(step)
                self.run.seen[step.__name__] += 1
            except psycopg.Error:
                self.connection.rollback()
            time.sleep(0.02 * self.random.random())
        self.connection.close()

    def take(self, step: Callable[[], None]) -> None:
        if self.random.random() > 0.35:
            step()
            return
        self.connection.execute("BEGIN")
        if self.random.random() < 0.3:
            self.connection.execute("SELECT pg_current_xact_id()")
            time.sleep(0.05 * self.random.random())
        step()
        time.sleep(self.random.choice([0, 0.01, 0.02, 0.3]))
        self.connection.execute(self.random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))

    def ask(self, query: str, *values: object) -> list[Any]:
        return [row[0] for row in self.connection.execute(query.encode(), values).fetchall()]

    @property
    def lock(self) -> str:
        return self.random.choice(LANES)

    @property
    def priority(self) -> int:
        return self.random.choice([0, 0, 0, 1, 2])

    def pick(self) -> list[int]:
        return self.ask("SELECT id FROM jobs WHERE status <> 'doing' ORDER BY random() LIMIT 3")

    def pick_ended(self) -> list[int]:
        recent = "finished_at > now() - interval '3 s' ORDER BY random() LIMIT 2"
        return self.ask(f"SELECT id FROM finished_jobs WHERE {recent}")

    def defer_one(self) -> None:
        for _ in range(self.random.choice([1, 1, 3])):
            self.ask("SELECT defer('t', lock => %s, priority => %s)", self.lock, self.priority)

    def defer_many(self) -> None:
        self.ask(
            "SELECT id FROM defer_jobs(array_fill('t'::text, ARRAY[6]), "
            "array_fill('{}'::jsonb, ARRAY[6]), NULL, %s::text[], %s::int[], NULL, NULL)",
            [self.lock for _ in range(6)], [self.priority for _ in range(6)],
        )  # fmt: skip

    def replace(self) -> None:
        """Draw two ids, and perhaps wait for the queueing locks of open transactions."""
        self.ask(
            "SELECT id FROM defer_jobs('{t,t}', '{\"{}\",\"{}\"}', NULL, %s::text[], NULL, NULL, "
            "%s::interval[], p_queueing_locks => %s::text[], p_on_conflict => %s::conflict_policy)",
            [self.lock, self.lock], self.random.choice([["0", "0"], ["1 s", "0"]]), sorted(self.random.sample(["p", "q", "r", "s"], 2)),
            self.random.choice(["skip", "replace"]),
        )  # fmt: skip

    def hold_job(self) -> None:
        """Lock a job, as an open transaction that writes none."""
        held = "queueing_lock IS NOT NULL AND status <> 'doing' ORDER BY random() LIMIT 1"
        with self.connection.transaction():
            self.ask(f"SELECT id FROM jobs WHERE {held} FOR UPDATE SKIP LOCKED")
            time.sleep(self.random.choice([0.02, 0.3]))

    def defer_later(self) -> None:
        self.ask(
            "SELECT id FROM defer_jobs('{t}', '{\"{}\"}', NULL, %s::text[], %s::int[], NULL, "
            "%s::interval[])",
            [self.lock], [self.priority], [f"{0.3 * self.random.random()} s"],
        )  # fmt: skip

    def defer_after(self) -> None:
        parents = self.pick() or None
        after = "after => %s::bigint[], on_parent => 'go'"
        self.ask(f"SELECT defer('t', lock => %s, {after})", self.lock, parents)

    def defer_batch(self) -> None:
        [batch] = self.ask("SELECT open_batch('b', 't', lock => %s)", self.lock)
        for _ in range(2):
            self.ask("SELECT defer('t', lock => %s, batch_id => %s)", self.lock, batch)
        self.ask("SELECT close_batch(%s)", batch)

    def roll_back_a_part(self) -> None:
        with self.connection.transaction():
            with self.connection.transaction(force_rollback=True):
                self.defer_one()
            with self.connection.transaction():
                self.defer_one()
            time.sleep(0.1 * self.random.random())

    def move(self) -> None:
        self.ask(
            "SELECT change_jobs('move', %s, ROW('{todo,blocked,limited,paused,scheduled,pending}', "
            "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::job_filter, "
            "p_priority => %s)::text",
            self.pick(), self.priority,
        )  # fmt: skip

    def retry_ended(self) -> None:
        for job in self.pick_ended():
            self.ask("SELECT retry_job(%s)", job)

    def retry_changed(self) -> None:
        for job in self.pick_ended()[:1]:
            call = "SELECT retry_job_changed(%s, p_priority => %s, p_lock => %s)"
            self.ask(call, job, self.priority, self.lock)

    def cancel(self) -> None:
        for job in self.pick()[:1]:
            self.ask("SELECT cancel_job(%s)", job)

    def pause_lane(self) -> None:
        lock = self.lock
        self.ask("SELECT pause_lane(%s, 'a reason')", lock)
        time.sleep(0.02)
        self.ask("SELECT resume_lane(%s)", lock)

    def defer_limited(self) -> None:
        self.ask("SELECT set_limit('key', %s)", self.random.choice([2, 5]))
        self.ask("SELECT defer('t', lock => %s, limit_key => 'key')", self.lock)

    def prepare(self) -> None:
        if self.connection.info.transaction_status:
            return
        self.prepared += 1
        name = f"{self.number} {self.prepared}"
        self.connection.execute("BEGIN; SET LOCAL inturn.quiet = on")
        self.defer_one()
        self.connection.execute(f"PREPARE TRANSACTION '{name}'".encode())
        time.sleep(self.random.choice([0.05, 0.3]))
        self.connection.execute(f"COMMIT PREPARED '{name}'".encode())


class Worker:
    """Hands jobs over as `Reporting` does, with the real floors."""

    def __init__(self, run: Run, number: int) -> None:
        self.shared = run
        self.random = random.Random(f"{run.seed} worker {number}")
        self.connection = run.connect()
        self.floors = Floors(cast(WorkerConnection, self))
        [(self.id,)] = self.connection.execute(
            "SELECT register_worker('w', 'h', 1, NULL, 1)"
        ).fetchall()
        self.jobs: list[Job] = []

    def do(self, operation: Operation[T]) -> T:
        with self.connection.cursor() as cursor:
            return drive.run_on(cursor, operation, SCHEMA)

    async def run(self, operation: Operation[T]) -> T:
        return self.do(operation)

    def work(self) -> None:
        while not self.shared.over.is_set():
            try:
                self.take_step()
            except psycopg.Error:
                self.reconnect()
        self.connection.close()

    def reconnect(self) -> None:
        """Connect as after a failure, and take back what an unknown answer started."""
        self.connection.close()
        self.connection = self.shared.connect()
        self.jobs = self.do(claim.list_jobs_of_worker(self.id))

    def take_step(self) -> None:
        if not self.jobs:
            self.jobs = self.do(claim.claim(self.id, None, 2, False, 2))
            time.sleep(0 if self.jobs else 0.005)
            return
        chance = self.random.random()
        if chance < 0.06:
            self.retry(self.jobs[0])
        elif chance < 0.1:
            self.do(finish.put_back(self.jobs[:1]))
            self.jobs = self.do(claim.list_jobs_of_worker(self.id))
        elif chance < 0.18:
            self.reconnect()
        else:
            self.hand_over()
            time.sleep(self.random.choice([0, 0.002]))

    def retry(self, job: Job) -> None:
        self.connection.execute(
            "SELECT retry(%s, %s::uuid[], %s::interval[], '{NULL}', p_priorities => %s::int[], "
            "p_locks => %s::text[])",
            [[job.id], [job.claim_id], [self.random.choice(["0", "0.1 s"])],
             [self.random.choice([None, 0, 1])], [self.random.choice([None, None, *LANES])]],
        )  # fmt: skip
        self.jobs = self.do(claim.list_jobs_of_worker(self.id))  # an open transaction may keep it

    def hand_over(self) -> None:
        if self.floors.are_due:
            asyncio.run(self.floors.refresh())
        ended = [Ended(job, Status.SUCCEEDED) for job in self.jobs]
        known, final = self.floors.of(ended), self.floors.final
        if known:
            self.check(known)
        call = finish.finish(self.id, None, 2, ended, (), known, self.floors.horizon)
        done = self.do(call)
        self.floors.note_first(done.next, final)
        self.jobs = [job for job in self.jobs if job.id in done.busy] + done.next

    def check(self, known: claim.Floors) -> None:
        [(horizon, *found)] = self.connection.execute(
            "SELECT current_setting('inturn.horizon', true), "
            "ARRAY(SELECT (lock, id)::text FROM lane_heads(%s, %s) ORDER BY lock), "
            "ARRAY(SELECT (lock, id)::text FROM lane_heads(%s) ORDER BY lock)",
            [LANES, Jsonb(known), LANES],
        ).fetchall()
        if horizon == self.floors.horizon:
            self.shared.seen["check"] += 1
            if found[0] != found[1]:
                self.shared.skips.append((found, known))


def run_all(run: Run, threads: list[Producer | Worker], seconds: float) -> None:
    """Let them work until a job was skipped, at most for so many seconds."""
    give_up_at = time.monotonic() + seconds
    with ThreadPoolExecutor(len(threads)) as pool:
        working = [pool.submit(each.work) for each in threads]
        while time.monotonic() < give_up_at and not run.skips:
            time.sleep(0.1)
            if any(each.done() for each in working):
                break
        run.over.set()
    for each in working:
        each.result()


@pytest.mark.parametrize("mutant", [None, *MUTANTS], ids=lambda each: each and each.name)
def test_a_search_from_the_floor_finds_what_one_from_the_front_finds(
    bin_dir: Path | None, mutant: Mutation | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"HOT": 1, "EVERY": 1, "SOON": 1, "PATIENCE": 0, "MANY_BACK": 2, "MOST_PRIORITIES": 2}
    for name, value in values.items():
        monkeypatch.setattr(floors, name, value)
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # shown if it fails
    settings = {"max_prepared_transactions": "20"}
    with Server(bin_dir=bin_dir, settings=settings) as server:
        migrate(server.dsn())
        run = Run(server.dsn(), seed)
        if mutant is not None:
            text = source_file(mutant.file.removesuffix(".sql")).read_text(encoding="utf-8")
            text = replace_once(text, mutant.old, mutant.new, mutant.file)
            with closing(run.connect()) as connection:
                connection.execute(text.encode())
        producers = [Producer(run, number) for number in range(4)]
        workers = [Worker(run, number) for number in range(2)]
        run_all(run, [*producers, *workers], MOST_SECONDS if mutant else SECONDS)
        with closing(run.connect()) as connection:
            assert connection.execute(OLD_NUMBERS.encode()).fetchall() == []
    if mutant is not None:
        assert run.skips, run.seen
        return
    assert not run.skips, run.skips[:3]
    assert run.seen["check"] >= LEAST_CHECKS
    assert {step.__name__ for step in producers[0].steps} < set(run.seen)
