"""A graph of random dependencies, run by real workers that are killed on the way.

Each job has random earlier jobs as its parents, a random policy, and often a lane. The log of the
tasks must show a legal order, and in the end each job must be what the graph alone
says: succeeded, failed, cancelled, or held up by a failure. `make test` runs some hundred jobs, and
`make graph` 10,000. JOBS and SEED change that.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.evidence.events import History
from tests.evidence.judge import Verdict, check, describe
from tests.evidence.record import environment
from tests.stress.stress_app import TOLERANCES

JOBS = int(os.environ.get("INTURN_GRAPH_JOBS") or 500)
SEED = os.environ.get("INTURN_GRAPH_SEED") or str(time.time_ns())
WORKERS = 3
NEAR, FAR = 60, 0.1  # parents are among so many jobs before it, and some are anywhere
HELD = 0.2  # of the jobs may come after jobs that are held up
LIMIT = 600.0  # seconds: only keeps a failing run from hanging
IS_OVER = """
SELECT NOT EXISTS (SELECT FROM jobs WHERE status <> 'pending') AND NOT EXISTS (TABLE ends)
"""
STATUSES = """
SELECT id, 'pending' FROM jobs UNION ALL SELECT id, status::text FROM finished_jobs
"""
LEFT = "SELECT child FROM edges UNION ALL SELECT job_id FROM ends UNION ALL SELECT id FROM jobs"


@dataclass
class Node:
    parents: list[int]
    on_parent: str
    fails: bool


@dataclass
class Graph:
    dsn: str
    folder: Path
    seed: str = SEED
    nodes: dict[int, Node] = field(default_factory=dict)
    expected: dict[int, str] = field(default_factory=dict)  # what the graph alone says
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.history = History(self.folder, self.seed, "conductor")
        self.history.write("settings", seed=self.seed, **TOLERANCES)
        self.connection = psycopg.connect(
            self.dsn, autocommit=True, options="-c search_path=inturn"
        )

    def query(self, statement: Any, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters or None).fetchall()

    # -- the graph

    def defer(self, count: int) -> None:
        """Defer some jobs in a transaction, each after some of those before it."""
        ops = []
        with self.connection.transaction():
            for _ in range(count):
                node, lock = self.node(), self.dice.choice([None, f"lane {len(self.nodes) % 9}"])
                fails, op = 9 if node.fails else 0, f"job {len(self.nodes)}"
                args, spec = Jsonb({"fails": fails, "seconds": 0.001}), {
                    "later": True, "fails": fails, "after": node.parents,
                    "on_parent": node.on_parent,
                }  # fmt: skip
                self.history.write("call", op=op, lane=lock, jobs=[spec])
                [(job,)] = self.query(
                    "SELECT defer('step', %s, lock => %s, after => %s::bigint[], on_parent => %s)",
                    args, lock, node.parents, node.on_parent,
                )  # fmt: skip
                self.nodes[job], self.expected[job] = node, self.end_of(node)
                self.history.write("inserted", op=op, ids=[job])
                ops.append(op)
        for op in ops:
            self.history.write("ok", op=op)

    def node(self) -> Node:
        """Return a job whose parents are mostly near, and mostly not held up.

        Otherwise the first failures would hold up all of the graph.
        """
        dice, known = self.dice, list(self.nodes)
        pool = known if dice.random() < FAR else known[-NEAR:]
        if dice.random() > HELD:
            pool = [job for job in pool if self.expected[job] != "pending"]
        count = min(len(pool), dice.choice((0, 1, 1, 2, 3, 7)))
        policy = dice.choice(("cancel", "go", "go", "hold"))
        return Node(dice.sample(pool, count), policy, dice.random() < 0.03)

    def end_of(self, node: Node) -> str:
        above = [self.expected[parent] for parent in node.parents]
        is_bad = any(end in ("failed", "cancelled") for end in above)
        if is_bad and node.on_parent == "cancel":
            return "cancelled"
        if "pending" in above or (is_bad and node.on_parent == "hold"):
            return "pending"
        return "failed" if node.fails else "succeeded"

    # -- the workers

    def spawn(self) -> None:
        who = f"worker.{len(self.workers) + self.kills}"
        settings = {**os.environ, "INTURN_DSN": self.dsn,
                    **environment(self.folder, self.seed, who)}  # fmt: skip
        command = [sys.executable, "-m", "tests.stress.stress_app", "work", ""]
        root = Path(__file__).parents[2]
        self.workers[who] = subprocess.Popen(command, cwd=root, env=settings)

    def kill(self) -> bool:
        """Kill the worker that has lived longest, if it has begun to work."""
        who = next(iter(self.workers))
        if not (self.folder / f"{who}.jsonl").exists():
            return False
        worker = self.workers.pop(who)
        worker.kill()
        worker.wait()
        self.history.write("killed", victim=who)
        self.kills += 1
        self.spawn()
        return True

    def await_the_end(self, killing: bool = False) -> None:
        deadline, next_kill = time.monotonic() + LIMIT, time.monotonic()
        while not self.query(IS_OVER)[0][0]:
            assert time.monotonic() < deadline, self.query(STATUSES)
            if killing and time.monotonic() > next_kill and self.kill():
                next_kill = time.monotonic() + 2
            time.sleep(0.05)

    def let_all_go(self) -> None:
        """Let go what failures hold up, until nothing is left."""
        while held := self.query("SELECT DISTINCT child FROM edges WHERE failed"):
            for (child,) in held:
                self.history.write("let_go", job=child)
                self.history.write("retried", job=child)  # it may have been cancelled just before
                self.query("SELECT retry_job(%s)", child)
            self.await_the_end()

    def end(self) -> None:
        for worker in self.workers.values():
            worker.send_signal(signal.SIGTERM)
        for who, worker in self.workers.items():
            assert worker.wait(LIMIT) in (0, -signal.SIGTERM)
            if worker.returncode:  # it had only just started, and dies of the signal
                self.history.write("killed", victim=who)
        for job, fence, status in self.query("SELECT id, fence, status::text FROM finished_jobs"):
            self.history.write("final", job=job, fence=fence, status=status)

    def judged(self) -> Verdict:
        self.history.close()
        return check(self.folder)


@contextmanager
def graph(dsn: str, folder: Path, seed: str = SEED, workers: int = WORKERS) -> Iterator[Graph]:
    made = Graph(dsn, folder, seed)
    try:
        for _ in range(workers):
            made.spawn()
        yield made
    finally:
        for worker in made.workers.values():
            worker.kill()
            worker.wait()
        made.connection.close()


@pytest.mark.proof
def test_a_graph_of_random_jobs_runs_in_a_legal_order_though_workers_are_killed(
    dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with graph(dsn, tmp_path) as played:
        while len(played.nodes) < JOBS:
            played.defer(played.dice.choice([1, 3, 20]))
            if len(played.nodes) % 50 == 0:
                played.kill()
        played.await_the_end(killing=True)
        statuses = dict(played.query(STATUSES))
        played.let_all_go()
        played.end()
        left = played.query(LEFT)
        [(deadlocks,)] = played.query(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
    counts = Counter(played.expected.values())
    with capsys.disabled():
        print(f"\n  seed {SEED}, {played.kills} kills, edges",
              sum(len(node.parents) for node in played.nodes.values()), dict(counts))  # fmt: skip
    assert statuses == played.expected, f"INTURN_GRAPH_SEED={SEED}"
    verdict = played.judged()
    assert verdict.word == "valid", f"INTURN_GRAPH_SEED={SEED}: {describe(verdict)}"
    assert (left, deadlocks) == ([], 0)
    assert played.kills >= 1
    assert all(counts[status] for status in ("succeeded", "failed", "cancelled", "pending"))


@pytest.mark.fresh_database
@pytest.mark.proof
def test_the_log_shows_it_if_parents_do_not_matter(dsn: str, tmp_path: Path) -> None:
    with graph(dsn, tmp_path, seed="control", workers=1) as played:
        played.connection.execute(
            "CREATE OR REPLACE FUNCTION await_parents(p_children bigint[]) RETURNS void "
            "LANGUAGE sql AS 'UPDATE jobs SET status = ''todo'' WHERE id = ANY (p_children)'"
        )
        played.defer(150)
        played.await_the_end()
        assert dict(played.query(STATUSES)) != played.expected
        played.end()
        verdict = played.judged()
    assert {"early", "against"} <= verdict.broken, describe(verdict)
