"""What limits cost: jobs that have one, jobs that have none, and many keys or limits at once.

Work is counted: probes, rows, and updates of the rows of keys.
"""

from collections.abc import Iterator
from secrets import token_hex
from typing import LiteralString

import psycopg
import pytest

from tests.conftest import Query
from tests.sql.counted import Counter

pytestmark = pytest.mark.fresh_database

PROBES = """
SELECT relname, coalesce(idx_scan, 0) + coalesce(seq_scan, 0)
FROM pg_stat_user_tables WHERE schemaname = 'inturn' AND relname IN ('limits', 'gates')
"""
WAITING = """
SELECT coalesce(idx_scan, 0) FROM pg_stat_user_indexes
WHERE schemaname = 'inturn' AND indexrelname = 'jobs_gated'
"""
UPDATES = """
SELECT n_tup_upd FROM pg_stat_user_tables
WHERE schemaname = 'inturn' AND relname = 'gates'
"""
CLAIM_AND_FINISH = """
WITH claimed AS MATERIALIZED (SELECT * FROM claim(%s, NULL, 10))
SELECT array_agg(id), array_agg(claim_id) FROM claimed
"""
FINISH: LiteralString = """
SELECT finish(%s, NULL, 0, %s, %s, array_fill('succeeded'::job_status, ARRAY[cardinality(%s)]),
    array_fill(NULL::jsonb, ARRAY[cardinality(%s)]))
"""
HAND_OVER: LiteralString = """
SELECT array_agg((next).id), array_agg((next).claim_id)
FROM finish(%s, NULL, %s, %s, %s, array_fill('succeeded'::job_status, ARRAY[cardinality(%s)]),
    array_fill(NULL::jsonb, ARRAY[cardinality(%s)]))
WHERE (next).id IS NOT NULL
"""
JOBS: LiteralString = """
INSERT INTO jobs (created_at, status, task, queue, limit_key, expires_at)
SELECT now(), %s, 't', %s, %s || i, %s FROM generate_series(1, %s) AS i
"""


class Desk:
    """A worker, and the work of its calls."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self.counter = Counter(connection)
        rows = connection.execute("SELECT register_worker('w', 'here', 1, NULL, 10)").fetchall()
        self.id = rows[0][0]

    def defer(
        self,
        count: int,
        key: str,
        status: str = "todo",
        queue: str = "default",
        expires_at: str | None = None,
    ) -> None:
        self.connection.execute(JOBS, [status, queue, key, expires_at, count])

    def claim(
        self, limit: int, slots: int | None = None, queue: str = "default"
    ) -> tuple[int, int, int]:
        """Return how many jobs have started, and the rows and the pages of the claim."""
        with self.counter.count() as work:
            found = self.connection.execute(
                "SELECT id FROM claim(%s, ARRAY[%s], %s, false, %s)", [self.id, queue, limit, slots]
            ).fetchall()
        return len(found), work.rows, work.pages


@pytest.fixture
def desk(dsn: str) -> Iterator[Desk]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield Desk(connection)


def test_the_longest_names_fit_into_the_index_of_gates(desk: Desk) -> None:
    def random(length: int) -> str:
        return token_hex(length)[:length]  # nothing that could be compressed much

    names = [random(63), random(512), random(1024)]
    desk.connection.execute(
        "INSERT INTO jobs (created_at, status, queue, task, limit_key) "
        "VALUES (now(), 'limited', %s, %s, %s)",
        names,
    )
    desk.connection.execute("UPDATE jobs SET status = 'paused'")
    [[gate]] = desk.connection.execute("SELECT gate FROM gated_jobs").fetchall()
    assert gate == f"task:{names[1]}"


def test_a_job_without_a_limit_costs_one_probe_a_claim(query: Query) -> None:
    [[worker]] = query("SELECT register_worker('w', 'here', 1, NULL, 10)")

    def count() -> tuple[dict[str, int], int]:
        query("SELECT pg_stat_force_next_flush()")
        query("SELECT pg_stat_clear_snapshot()")
        return dict(query(PROBES)), query(WAITING)[0][0]

    before, waiting = count()
    for lock in ("NULL", "a"):
        for _ in range(10):
            query("SELECT defer('t', lock => nullif(%s, 'NULL'))", lock)
            [[ids, claims]] = query(CLAIM_AND_FINISH, worker)
            query(FINISH, worker, ids, claims, ids, ids)
    after, waited = count()
    assert after["limits"] == before["limits"]
    assert after["gates"] - before["gates"] == 20  # of 20 claims and 20 ends
    assert waited == waiting


@pytest.mark.parametrize("limit", ["2", "NULL, 60, interval '1 min', 100", "2, 60, '1 min', 100"])
def test_a_start_and_an_end_change_the_row_of_their_key_once(query: Query, limit: str) -> None:
    """An open transaction keeps old versions of the row, so each one costs all that follow."""
    [[worker]] = query("SELECT register_worker('w', 'here', 1, NULL, 10)")
    query(f"SELECT set_limit('stripe', {limit})")

    def count() -> int:
        query("SELECT pg_stat_force_next_flush()")
        query("SELECT pg_stat_clear_snapshot()")
        [[updates]] = query(UPDATES)
        return int(updates)

    for _ in range(40):
        query("SELECT defer('t', limit_key => 'stripe')")
    before, ended = count(), 0
    for _ in range(4):
        [[ids, claims]] = query(CLAIM_AND_FINISH, worker)
        assert count() - before == 1
        query(FINISH, worker, ids, claims, ids, ids)
        assert count() - before == 2
        before, ended = before + 2, ended + len(ids)
    assert ended >= 8


def test_a_slot_that_is_handed_over_does_not_change_the_row_of_its_key(query: Query) -> None:
    [[worker]] = query("SELECT register_worker('w', 'here', 1, NULL, 10)")
    query("SELECT set_limit('stripe', 2)")
    for _ in range(10):
        query("SELECT defer('t', limit_key => 'stripe')")
    [[ids, claims]] = query(CLAIM_AND_FINISH, worker)
    query("SELECT pg_stat_force_next_flush()")
    [[before]] = query(UPDATES)
    for _ in range(4):
        [[ids, claims]] = query(HAND_OVER, worker, 2, ids, claims, ids, ids)
        assert len(ids) == 2
    query("SELECT pg_stat_force_next_flush()")
    query("SELECT pg_stat_clear_snapshot()")
    assert query(UPDATES) == [(before,)]


@pytest.mark.parametrize("end", ["", "*"], ids=["of keys", "of patterns"])
def test_a_start_costs_no_more_with_many_limits(desk: Desk, end: str) -> None:
    desk.defer(1, "customer:")
    desk.claim(1)
    costs = []
    for count in (10, 1000):
        desk.connection.execute(
            "INSERT INTO limits (pattern, slots) SELECT 'other:' || i || %s, 1 "
            "FROM generate_series(1, %s) AS i ON CONFLICT DO NOTHING",
            [end, count],
        )
        desk.defer(2, "customer:")
        started, rows, _ = desk.claim(2)
        assert started == 2
        costs.append(rows)
    assert costs[1] < 1.5 * costs[0]


def test_a_start_costs_no_more_with_a_long_key(desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('customer:*', 10)")
    costs = []
    # The first one pays for the plans.
    for key in ("customer:1", "customer:2", f"customer:{'x' * 1000}:"):
        desk.defer(2, key)
        started, rows, _ = desk.claim(2)
        assert started == 2
        costs.append(rows)
    assert costs[2] <= costs[1]


def test_calls_take_as_many_statements_for_a_hundred_keys_as_for_ten(desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('customer:*', 1)")
    found = []
    for count in (1, 10, 100):  # the first one pays for the plans
        desk.defer(count, "customer:")
        desk.defer(count, "customer:")
        with desk.counter.count() as starts:
            [[ids, claims]] = desk.connection.execute(
                "SELECT array_agg(id), array_agg(claim_id) FROM claim(%s, NULL, 300)", [desk.id]
            ).fetchall()
        assert len(ids) == count
        assert desk.connection.execute(
            "SELECT count(*) FROM jobs WHERE status = 'limited'"
        ).fetchall() == [(count,)]
        with desk.counter.count() as ends:
            desk.connection.execute(FINISH, [desk.id, ids, claims, ids, ids])
        assert desk.connection.execute("SELECT status FROM jobs").fetchall() == [("todo",)] * count
        found.append((len(starts.plans), len(ends.plans)))
        desk.connection.execute("DELETE FROM jobs")
    assert found[2] == found[1]


def test_room_for_many_jobs_does_not_make_a_claim_look_at_many_keys(desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('customer:*', 1)")
    desk.defer(1000, "customer:")
    costs = []
    for room in (200, 800):
        started, rows, _ = desk.claim(room, slots=10)
        assert started == 30
        costs.append(rows)
    assert costs[1] < 5 * costs[0]  # it reads the jobs, and compares them with no list of keys
    [[keys]] = desk.connection.execute("SELECT count(*) FROM gates").fetchall()
    assert keys <= 2 * 30


def test_a_claim_looks_at_no_more_rates_than_it_can_use(desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('customer:*', NULL, 1000, '1 s')")
    costs = []
    for _ in range(2):
        desk.defer(300, "customer:")
        started, rows, _ = desk.claim(300, slots=1)
        assert started == 1
        costs.append(rows)
        desk.connection.execute(
            "INSERT INTO gates (key, tokens, refilled_at) SELECT limit_gate('customer:' || i), 9, "
            "clock() FROM generate_series(1, 300) AS i ON CONFLICT DO NOTHING"
        )
    assert costs[1] < 1.2 * costs[0]


def test_a_claim_looks_at_a_few_of_many_keys_that_are_due(desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('customer:*', 1)")
    desk.defer(1, "other:", queue="mine")
    _, without, _ = desk.claim(1, queue="mine")
    desk.connection.execute(
        "INSERT INTO gates (key, look_at) "
        "SELECT limit_gate('customer:' || i), clock() FROM generate_series(1, 500) AS i"
    )
    desk.defer(500, "customer:", status="limited")
    desk.defer(1, "other:", queue="mine")
    started, rows, _ = desk.claim(1, queue="mine")
    assert started == 1
    assert rows < without + 2000
    [[woken]] = desk.connection.execute(
        "SELECT count(*) FROM jobs WHERE status = 'todo'"
    ).fetchall()
    assert woken == 10


def test_jobs_of_many_keys_expire_at_the_cost_of_those_of_one(desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('customer:*', 1)")
    costs = []
    for prefix in ("one", "customer:"):
        desk.defer(500, prefix, expires_at="2020-01-01")  # what a claim ends at once
        if prefix == "one":
            desk.connection.execute("UPDATE jobs SET limit_key = 'one'")
        else:
            desk.connection.execute("INSERT INTO gates SELECT limit_gate(limit_key) FROM jobs")
        _, rows, _ = desk.claim(1)
        costs.append(rows)
        [[left]] = desk.connection.execute("SELECT count(*) FROM jobs").fetchall()
        assert left == 0
    assert costs[1] < 1.2 * costs[0]


def test_a_few_claims_get_past_a_burst_of_a_full_key(desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('stripe', 1)")
    desk.defer(8000, "stripe")
    desk.connection.execute("UPDATE jobs SET limit_key = 'stripe'")
    desk.connection.execute(
        "INSERT INTO jobs (created_at, status, task) VALUES (now(), 'todo', 't')"
    )
    claims = 1
    while not desk.claim(1)[0] or desk.connection.execute(
        "SELECT count(*) FROM jobs WHERE status = 'todo' AND limit_key IS NULL"
    ).fetchall() == [(1,)]:
        claims += 1
        assert claims < 6


def test_a_claim_locks_no_jobs_behind_a_burst_of_a_full_key(dsn: str, desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('stripe', 1)")
    desk.defer(20, "stripe")
    desk.connection.execute("UPDATE jobs SET limit_key = 'stripe'")
    desk.connection.execute(
        "INSERT INTO jobs (created_at, status, task) SELECT now(), 'todo', 't' "
        "FROM generate_series(1, 30)"
    )
    assert desk.claim(1)[0] == 1
    with desk.connection.transaction():
        assert desk.claim(2)[0] == 2
        with psycopg.connect(dsn, autocommit=True) as other:
            [[free]] = other.execute(
                "SELECT count(*) FROM (SELECT FROM inturn.jobs WHERE limit_key IS NULL "
                "AND status = 'todo' FOR UPDATE SKIP LOCKED) AS free"
            ).fetchall()
    assert free == 28


def test_the_list_of_limits_does_not_compare_each_limit_with_each_key(desk: Desk) -> None:
    desk.connection.execute(
        "INSERT INTO limits (pattern, slots) SELECT 'customer:' || i, 5 "
        "FROM generate_series(1, 300) AS i"
    )
    desk.connection.execute(
        "INSERT INTO gates (key, used) SELECT limit_gate('customer:' || i), 1 "
        "FROM generate_series(1, 300) AS i"
    )
    with desk.counter.count() as work:
        rows = desk.connection.execute("SELECT running FROM list_limits(1000)").fetchall()
    assert rows == [(1,)] * 300
    assert work.rows < 300 * 100
    assert len(work.plans) == 2  # the call and its one statement


def test_a_claim_ahead_looks_only_once_if_a_job_lacks_a_slot(desk: Desk) -> None:
    desk.connection.execute("SELECT set_limit('k*', NULL, 1000, '1 s')")
    desk.defer(1, "k")
    desk.connection.execute(
        "SELECT defer('t', lock => 'lane ' || n) FROM generate_series(1, 100) AS n"
    )
    assert desk.claim(10, slots=0)[0] == 0
    _, ahead, _ = desk.claim(10, slots=0)
    started, rows, _ = desk.claim(10, slots=1)
    assert started == 10
    assert ahead < 2 * rows


def test_a_slot_is_handed_over_at_the_same_cost_whenever_the_tables_were_analysed(
    desk: Desk,
) -> None:
    """A plan that searches all that waits at gates for an id would read thousands of pages."""
    run = desk.connection.execute
    run("SELECT set_limit('k*', 1)")
    desk.defer(50, "k")
    running = run("SELECT array_agg(id), array_agg(claim_id) FROM claim(%s, NULL, 50)", [desk.id])
    [[ids, claims]] = running.fetchall()
    costs = []
    for _ in ("before any job waits for a slot", "while many do"):
        run("VACUUM ANALYZE jobs, gates")
        for _ in range(20):
            desk.defer(50, "k", status="limited")
        with desk.counter.count() as work:
            handed = run(HAND_OVER, [desk.id, 50, ids, claims, ids, ids])
        [[ids, claims]] = handed.fetchall()
        assert len(ids) == 50
        costs.append(work.pages)
        run("DISCARD PLANS")
    assert costs[0] < 1.5 * costs[1]
