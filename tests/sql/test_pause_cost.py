"""What pauses of tasks cost: nothing while there is none, and little however many jobs wait.

Work is counted: probes, pages and rows.
"""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from tests.sql.counted import Counter

pytestmark = pytest.mark.fresh_database

JOBS: LiteralString = """
INSERT INTO jobs (created_at, status, task, lock)
SELECT now(), %s, %s, CASE WHEN %s THEN 'lane ' || %s || n END FROM generate_series(1, %s) AS n
"""
FINISH: LiteralString = """
SELECT finish(%s, NULL, 10, %s, %s, array_fill('succeeded'::job_status, ARRAY[cardinality(%s)]),
    array_fill(NULL::jsonb, ARRAY[cardinality(%s)]))
"""
PROBES = """
SELECT coalesce(sum(idx_scan), 0) + coalesce(sum(seq_scan), 0), sum(seq_tup_read)
FROM pg_stat_user_tables WHERE schemaname = 'inturn' AND relname = 'pauses'
"""
READ = """
SELECT idx_scan FROM pg_stat_user_indexes
WHERE schemaname = 'inturn' AND indexrelname = 'jobs_gated'
"""


class Desk:
    """A worker, and the work of its calls."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.counter = Counter(connection)
        rows = connection.execute("SELECT register_worker('w', 'here', 1, NULL, 10)").fetchall()
        self.id = rows[0][0]

    def defer(
        self, count: int, task: str = "t", status: str = "todo", *, lanes: bool = False
    ) -> None:
        self.connection.execute(JOBS, [status, task, lanes, task, count])

    def claim(self, limit: int = 1) -> tuple[int, int, int]:
        """Return how many jobs have started, and the rows and the pages of the claim."""
        with self.counter.count() as work:
            found = self.connection.execute(
                "SELECT id FROM claim(%s, NULL, %s)", [self.id, limit]
            ).fetchall()
        return len(found), work.rows, work.pages

    def read(self, statement: LiteralString) -> tuple[int, ...]:
        self.connection.execute("SELECT pg_stat_force_next_flush()")
        self.connection.execute("SELECT pg_stat_clear_snapshot()")
        return tuple(int(each or 0) for each in self.connection.execute(statement).fetchall()[0])


@pytest.fixture
def desk(dsn: str) -> Iterator[Desk]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield Desk(connection)


def test_without_a_pause_a_claim_and_a_finish_each_look_once(desk: Desk) -> None:
    for lanes in (False, True):
        desk.defer(10, "free" if lanes else "t", lanes=lanes)
    before, woken = desk.read(PROBES), desk.read(READ)
    for _ in range(10):
        [[ids, claims]] = desk.connection.execute(
            "WITH claimed AS MATERIALIZED (SELECT * FROM claim(%s, NULL, 1)) "
            "SELECT array_agg(id), array_agg(claim_id) FROM claimed",
            [desk.id],
        ).fetchall()
        desk.connection.execute(FINISH, [desk.id, ids, claims, ids, ids])
    after = desk.read(PROBES)
    assert after[0] - before[0] <= 20
    assert after[1] == before[1]  # it is empty
    assert desk.read(READ) == woken


def test_a_claim_costs_the_same_however_many_jobs_are_aside(desk: Desk) -> None:
    desk.connection.execute("SELECT pause_task('mail')")
    costs = []
    for aside in (100, 100_000):
        desk.defer(aside, "mail", "paused")
        desk.connection.execute("VACUUM jobs")
        desk.defer(3)
        desk.claim()
        started, rows, pages = desk.claim()
        assert started == 1
        costs.append((rows, pages))
        desk.claim()
    assert costs[1][0] <= costs[0][0]
    assert costs[1][1] < 1.5 * costs[0][1]


def test_a_pause_of_another_task_costs_a_claim_a_look_at_its_jobs(desk: Desk) -> None:
    desk.defer(400)
    desk.claim(100)
    _, without, pages_without = desk.claim(100)
    desk.connection.execute("SELECT pause_task('mail')")
    desk.claim(100)
    started, rows, pages = desk.claim(100)
    assert started == 100
    assert rows < 2 * without
    assert pages < 1.5 * pages_without


@pytest.mark.parametrize("lanes", [False, True], ids=["free", "lanes"])
def test_a_burst_of_a_paused_task_is_cleared_at_a_bounded_cost(desk: Desk, lanes: bool) -> None:
    desk.connection.execute("SELECT pause_task('mail')")
    burst, step = (400, 100) if lanes else (20_000, 2000)
    desk.defer(burst, "mail", lanes=lanes)
    desk.defer(1, lanes=lanes)
    desk.connection.execute("VACUUM ANALYZE jobs")
    costs, started = [], 0
    while not started:
        started, rows, _ = desk.claim()
        costs.append(rows)
        assert len(costs) <= burst / step + 1
    assert max(costs[1:]) < 1.5 * min(costs[:-1])


def test_jobs_are_woken_at_a_cost_that_does_not_grow_with_them(desk: Desk) -> None:
    costs = []
    for aside in (3000, 50_000):
        desk.connection.execute("DELETE FROM jobs")
        desk.connection.execute("SELECT pause_task('mail')")
        desk.defer(aside, "mail", "paused")
        desk.connection.execute("VACUUM ANALYZE jobs")
        desk.connection.execute("SELECT resume_task('mail')")
        started, rows, _ = desk.claim()
        assert started == 1
        costs.append(rows)
        [[woken]] = desk.connection.execute(
            "SELECT count(*) FROM jobs WHERE status <> 'paused'"
        ).fetchall()
        assert woken == 1000
    assert costs[1] < 1.2 * costs[0]


def test_jobs_in_many_queues_are_woken_at_the_cost_of_those_in_one(desk: Desk) -> None:
    costs = []
    for queues in (1, 50):
        desk.connection.execute("DELETE FROM jobs")
        desk.connection.execute("DELETE FROM gates")
        desk.connection.execute("SELECT pause_task('mail')")
        desk.defer(10_000, "mail", "paused")
        desk.connection.execute("UPDATE jobs SET queue = 'q' || mod(id, %s)", [queues])
        desk.connection.execute("VACUUM ANALYZE jobs")
        desk.connection.execute("SELECT resume_task('mail')")
        started, rows, _ = desk.claim()
        assert started == 1
        costs.append(rows)
    assert costs[1] < 1.5 * costs[0]
