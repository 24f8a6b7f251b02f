"""A thousand jobs with random parents run in a legal order, although workers die on the way."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from random import Random
from threading import Lock
from typing import Any

import psycopg
import pytest

JOBS, THREADS = 1_000, 3
POLICIES = ("cancel", "go", "hold")


class Graph:
    """The jobs as they were deferred, and an own record of what happened to them."""

    def __init__(self, dsn: str, seed: int) -> None:
        self.dsn = dsn
        self.random = Random(seed)
        self.parents: dict[int, list[int]] = {}
        self.policies: dict[int, str] = {}
        self.log: list[tuple[str, int, str]] = []
        self._lock = Lock()

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self.dsn, autocommit=True, options="-c search_path=inturn -c lock_timeout=20s"
        )

    def note(self, what: str, job: int, status: str = "") -> None:
        with self._lock:
            self.log.append((what, job, status))

    def defer(self, connection: psycopg.Connection[Any]) -> None:
        near = list(self.parents)[-50:]
        parents = self.random.sample(near, min(len(near), self.random.choice((0, 0, 1, 1, 2, 3))))
        policy = self.random.choice(POLICIES)
        lock = self.random.choice((None, f"lane {self.random.randrange(20)}"))
        ((job,),) = connection.execute(
            "SELECT defer('t', lock => %s, priority => %s, after => %s::bigint[], on_parent => %s)",
            [lock, self.random.randrange(3), parents, policy],
        )
        self.parents[job], self.policies[job] = parents, policy

    def work(self, seed: int) -> None:
        random = Random(seed)
        while True:
            with self.connect() as connection:
                if self.live(connection, random):
                    return
                connection.execute("SELECT rescue(p_lost => false)")

    def live(self, connection: psycopg.Connection[Any], random: Random) -> bool:
        """Be a worker until it dies. Return True if nothing is left to do."""
        ((me,),) = connection.execute("SELECT register_worker('w', 'h', 1, NULL, 5)").fetchall()
        for turn in count(1):
            jobs = connection.execute(
                "SELECT id, claim_id FROM claim(%s, NULL, 5)", [me]
            ).fetchall()
            while jobs:
                for job, _ in jobs:
                    self.note("start", job)
                if random.random() < 0.05:  # it dies: others take its jobs back
                    connection.execute("DELETE FROM workers WHERE id = %s", [me])
                    return False
                ended = [
                    (job, claim, "failed" if random.random() < 0.03 else "succeeded")
                    for job, claim in jobs
                ]
                for job, _, status in ended:
                    self.note("end", job, status)
                jobs = []
                while ended:  # a claim may have a job locked for longer than a finish waits
                    rows = connection.execute(
                        "SELECT (next).id, (next).claim_id, busy_id FROM finish(%s, NULL, 5, %s, "
                        "%s, %s::text[]::job_status[], array_fill(NULL::jsonb, ARRAY[%s]))",
                        [me, *map(list, zip(*ended, strict=True)), len(ended)],
                    ).fetchall()
                    jobs += [(job, claim) for job, claim, _ in rows if job is not None]
                    busy = {job for *_, job in rows}
                    ended = [end for end in ended if end[0] in busy]
            if turn % 20 == 0:
                if self.is_over(connection):
                    return True
                # The one after a death has left what was locked just then.
                connection.execute("SELECT rescue(p_lost => false)")
        raise AssertionError("it never ends")

    def is_over(self, connection: psycopg.Connection[Any]) -> bool:
        """Return True if only held jobs, and those behind them, are left."""
        ((busy,),) = connection.execute(
            "SELECT EXISTS (SELECT FROM jobs WHERE status <> 'pending') OR EXISTS (TABLE ends)"
        ).fetchall()
        return not busy

    def check(self) -> None:
        ended: dict[int, str] = {}
        started = {job for what, job, _ in self.log if what == "start"}  # the others were cancelled
        for what, job, status in self.log:
            if what == "end":
                ended[job] = status
                continue
            for parent in self.parents[job]:
                if self.policies[job] == "go":
                    assert parent in ended or parent not in started, (job, parent)
                else:
                    assert ended.get(parent) == "succeeded", (job, parent, ended.get(parent))


@pytest.mark.parametrize("seed", range(2))
def test_a_random_graph_runs_in_a_legal_order_though_workers_die(dsn: str, seed: int) -> None:
    graph = Graph(dsn, seed)
    with graph.connect() as producer, ThreadPoolExecutor(THREADS) as pool:
        for _ in range(JOBS // 2):
            graph.defer(producer)
        running = [pool.submit(graph.work, seed * 10 + n) for n in range(THREADS)]
        for _ in range(JOBS // 2):
            graph.defer(producer)
        for each in running:
            each.result()
        graph.work(99)  # what was deferred after the last look
        graph.check()
        left = producer.execute("SELECT id FROM jobs WHERE status <> 'pending'").fetchall()
        assert left == []
        stuck = producer.execute(
            "SELECT id FROM jobs WHERE NOT EXISTS (SELECT FROM edges JOIN jobs AS parent "
            "ON parent.id = edges.parent WHERE edges.child = jobs.id) AND NOT EXISTS ("
            "SELECT FROM edges WHERE edges.child = jobs.id AND edges.failed)"
        ).fetchall()
        assert stuck == [], "each job that is left waits for another one, or is held"
        stray = producer.execute(
            "SELECT child FROM edges WHERE child NOT IN (SELECT id FROM jobs) "
            "UNION ALL SELECT job_id FROM ends"
        ).fetchall()
        assert stray == []
        finished = {
            job
            for (job,) in producer.execute(
                "SELECT id FROM finished_jobs WHERE status <> 'cancelled'"
            ).fetchall()
        }
        assert finished == {job for what, job, _ in graph.log if what == "end"} & finished


@pytest.mark.fresh_database
def test_the_record_shows_it_if_parents_do_not_matter(dsn: str) -> None:
    graph = Graph(dsn, 0)
    with graph.connect() as producer:
        producer.execute(
            "CREATE OR REPLACE FUNCTION await_parents(p_children bigint[]) RETURNS void "
            "LANGUAGE sql AS 'UPDATE jobs SET status = ''todo'' WHERE id = ANY (p_children)'"
        )
        for _ in range(200):
            graph.defer(producer)
        graph.work(1)
    with pytest.raises(AssertionError):
        graph.check()
