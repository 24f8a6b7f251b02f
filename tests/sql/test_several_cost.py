"""What jobs with several lanes cost others, and that claims stay flat however many of them wait."""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from tests.conftest import Query
from tests.sql.one_worker import Worker

pytestmark = pytest.mark.fresh_database

PROBES = """
SELECT coalesce(idx_scan, 0) + coalesce(seq_scan, 0)
FROM pg_stat_user_tables WHERE schemaname = 'inturn' AND relname = 'waits'
"""
CLAIM_AND_FINISH = """
WITH claimed AS MATERIALIZED (SELECT * FROM claim(%s, NULL, 10))
SELECT array_agg(id), array_agg(claim_id) FROM claimed
"""


@pytest.fixture
def worker(dsn: str) -> Iterator[Worker]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield Worker(connection)


@pytest.mark.parametrize(("lock", "probes"), [(None, 0), ("a", 3)])
def test_a_job_with_one_lock_or_none_costs_a_few_probes_of_an_empty_table(
    query: Query, lock: str | None, probes: int
) -> None:
    """One for the head that a claim starts, and two for the next one after its end."""
    [[worker]] = query("SELECT register_worker('w', 'here', 1, NULL, 10)")

    def count() -> int:
        query("SELECT pg_stat_force_next_flush()")
        query("SELECT pg_stat_clear_snapshot()")
        return int(query(PROBES)[0][0])

    before = count()
    for _ in range(10):
        query("SELECT defer('t', lock => %s)", lock)
        [[ids, claims]] = query(CLAIM_AND_FINISH, worker)
        query(
            "SELECT finish(%s, NULL, 10, %s, %s, '{succeeded}', ARRAY[NULL::jsonb])",
            worker, ids, claims,
        )  # fmt: skip
    assert count() - before == 10 * probes


@pytest.mark.landing
def test_a_claim_does_not_meet_jobs_again_that_wait_for_a_lane(worker: Worker) -> None:
    worker.query("SELECT defer('t', lock => 'hot')")
    assert len(worker.query("SELECT id FROM claim(%s, NULL, 10)", worker.id)) == 1
    costs = {}
    for depth in (200, 2000):
        worker.query(
            "SELECT count(defer('t', locks => ARRAY['hot', 'other' || n])) "
            "FROM generate_series(1, %s) AS n",
            depth,
        )
        for _ in range(4):
            assert worker.query("SELECT id FROM claim(%s, NULL, 10)", worker.id) == []
        assert worker.query("SELECT count(*) FROM jobs WHERE status = 'todo'") == [(0,)]
        with worker.counter.count() as work:
            worker.query("SELECT id FROM claim(%s, NULL, 10)", worker.id)
        costs[depth] = work.rows
    assert costs[2000] <= costs[200] + 5, costs


@pytest.mark.proof
def test_a_finish_finds_the_next_job_of_a_lane_however_many_wait_there(worker: Worker) -> None:
    costs = {}
    for depth in (200, 2000):
        lane = f"lane{depth}"
        worker.query(
            "SELECT count(defer('t', locks => ARRAY['a' || n, %s])) "
            "FROM generate_series(1, %s) AS n",
            f"z{lane}", depth,
        )  # fmt: skip
        [(id, claim_id)] = worker.query("SELECT id, claim_id FROM claim(%s, NULL, 1)", worker.id)
        for _ in range(4):
            worker.query("SELECT id FROM claim(%s, NULL, 10)", worker.id)
        with worker.counter.count() as work:
            worker.query(
                "SELECT finish(%s, NULL, 0, %s, %s, '{succeeded}', ARRAY[NULL::jsonb])",
                worker.id, [id], [claim_id],
            )  # fmt: skip
        costs[depth] = work.rows
        worker.query("SELECT cancel_job(id) FROM jobs")
    assert costs[2000] <= costs[200] + 5, costs


@pytest.mark.proof
def test_old_dead_lines_cost_the_lanes_of_others_nothing(worker: Worker, dsn: str) -> None:
    worker.query("SELECT count(defer('t', lock => 'one')) FROM generate_series(1, 3)")

    def pages() -> int:
        [(id, claim_id)] = worker.query("SELECT id, claim_id FROM claim(%s, NULL, 1)", worker.id)
        with worker.counter.count() as work:
            worker.query(
                "SELECT finish(%s, NULL, 0, %s, %s, '{succeeded}', ARRAY[NULL::jsonb])",
                worker.id, [id], [claim_id],
            )  # fmt: skip
        return work.pages

    pages()  # with cold caches
    before = pages()
    with psycopg.connect(dsn, options="-c search_path=inturn") as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM waits")
        worker.query(
            "SELECT count(defer('t', locks => ARRAY['a' || n, 'b' || n])) "
            "FROM generate_series(1, 2000) AS n"
        )
        worker.query("SELECT count(cancel_job(id)) FROM jobs WHERE locks IS NOT NULL")
        assert pages() <= before + 20


def test_readers_that_wait_for_their_retry_cost_other_readers_nothing(worker: Worker) -> None:
    costs = {}
    for kept in (20, 500):
        worker.query(
            "SELECT count(defer('t', lock => 'r', shared => '{r}')) FROM generate_series(1, %s)",
            kept,
        )
        running = []
        while jobs := worker.query("SELECT id, claim_id FROM claim(%s, NULL, 100)", worker.id):
            running.append(jobs)
        worker.query("SELECT pause_lane('r')")
        for jobs in running:
            worker.query(
                "SELECT count(*) FROM retry(%s, %s, %s::interval[], %s::jsonb[])",
                [id for id, _ in jobs], [claim for _, claim in jobs],
                ["0"] * len(jobs), [None] * len(jobs),
            )  # fmt: skip
        while worker.query("SELECT true FROM jobs WHERE status = 'todo' LIMIT 1"):
            worker.query("SELECT id FROM claim(%s, NULL, 100)", worker.id)
        worker.query(
            "SELECT count(defer('t', lock => 'q', shared => '{q}')) FROM generate_series(1, 2)"
        )
        jobs = worker.query("SELECT id, claim_id FROM claim(%s, NULL, 2)", worker.id)
        with worker.counter.count() as work:
            worker.query(
                "SELECT finish(%s, NULL, 0, %s, %s, '{succeeded}', ARRAY[NULL::jsonb])",
                worker.id, [jobs[0][0]], [jobs[0][1]],
            )  # fmt: skip
        costs[kept] = work.rows
        worker.query(
            "SELECT finish(%s, NULL, 0, %s, %s, '{succeeded}', ARRAY[NULL::jsonb])",
            worker.id, [jobs[1][0]], [jobs[1][1]],
        )  # fmt: skip
        worker.query("SELECT resume_lane('r')")
    assert costs[500] <= costs[20] + 5, costs


# Ten jobs of the lane, and then ten that have another one too, are in front of all that wait.
IN_FRONT = """
WITH new AS (
    INSERT INTO jobs (created_at, status, task, lock, locks)
    SELECT now(), 'todo', 't', coalesce(other, 'hot'),
        CASE WHEN other IS NOT NULL THEN ARRAY[other, 'hot'] END
    FROM (
        SELECT CASE WHEN n > 10 THEN 'x' || n END AS other FROM generate_series(1, 20) AS n) AS job
    RETURNING id, lock
)
INSERT INTO waits (lock, priority, id) SELECT 'hot', 0, id FROM new WHERE lock <> 'hot'
"""
BEHIND = """
WITH new AS (
    INSERT INTO jobs (created_at, status, task, lock, locks)
    SELECT now(), 'blocked', 't', 'a', '{a,hot}' FROM generate_series(1, %s::int) RETURNING id
)
INSERT INTO waits (lock, priority, id) SELECT 'hot', 0, id FROM new
"""
VIEWS: dict[str, LiteralString] = {
    "live_jobs": "SELECT status FROM live_jobs WHERE id <= (SELECT min(id) + 19 FROM jobs)",
    "idle_lanes": "SELECT * FROM idle_lanes",
    "queue_status": "SELECT * FROM queue_status",
}


def test_what_goes_first_in_a_lane_takes_a_probe_however_many_wait_there(worker: Worker) -> None:
    """Counts look at each of the first 10,000 jobs that wait, but not once for each in front."""
    worker.connection.execute(IN_FRONT)
    rows: dict[str, list[int]] = {view: [] for view in VIEWS}
    for more in (1000, 3000):
        worker.connection.execute(BEHIND, [more])
        worker.connection.execute("VACUUM ANALYZE jobs, waits")
        for view, statement in VIEWS.items():
            with worker.counter.count() as work:
                worker.query(statement)
            rows[view].append(work.rows)
    grown = {view: after - before for view, (before, after) in rows.items()}
    assert grown["live_jobs"] <= 5, rows
    assert grown["idle_lanes"] <= 5, rows
    assert grown["queue_status"] < 5 * 3000, rows
