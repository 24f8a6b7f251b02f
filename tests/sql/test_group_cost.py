"""Claims by turns cost the same however many jobs and groups wait. Other claims pay a probe."""

from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pytest

from tests.conftest import Query
from tests.sql.counted import Counter

pytestmark = pytest.mark.fresh_database

FILL: LiteralString = (
    "INSERT INTO jobs (created_at, status, task, group_key, lock, priority) "
    "SELECT now(), 'todo', 't', %s || n %% %s, CASE WHEN %s THEN 'lane ' || n END, n %% %s "
    "FROM generate_series(1, %s) AS n"
)
PROBES = """
SELECT coalesce(idx_scan, 0) FROM pg_stat_user_indexes
WHERE schemaname = 'inturn' AND indexrelname = 'jobs_turns'
"""
CLAIM_AND_FINISH = """
WITH claimed AS MATERIALIZED (SELECT * FROM claim(%s, '{default}', 10))
SELECT array_agg(id), array_agg(claim_id) FROM claimed
"""


def count_claim(
    connection: psycopg.Connection[Any], analysed: str, count: int, *what: object
) -> tuple[int, int]:
    """Return the rows that claims of one job and of ten meet behind so many jobs."""
    connection.execute("TRUNCATE jobs, lanes")
    if analysed == "empty":
        connection.execute("VACUUM ANALYZE jobs")
    connection.execute(FILL, [*what, count])
    if analysed == "full":
        connection.execute("VACUUM ANALYZE jobs")
    [[worker]] = connection.execute("SELECT register_worker('w', 'h', 1, NULL, 1)").fetchall()
    counter = Counter(connection)
    met = []
    for limit in (1, 10):
        claim: LiteralString = "SELECT id FROM claim(%s, NULL, %s, p_turns => %s::jsonb)"
        parameters = [worker, limit, '{"0": ["b5", 0]}']
        connection.execute(claim, parameters)  # plans what is new
        with counter.count() as work:
            assert len(connection.execute(claim, parameters).fetchall()) == limit
        met.append(work.rows)
    return met[0], met[1]


@pytest.mark.parametrize("analysed", ["empty", "full"])
@pytest.mark.parametrize("lanes", [False, True], ids=["free", "in lanes"])
@pytest.mark.parametrize(
    ("name", "spread"),
    [
        ("one group", lambda _: (1, 1)),
        ("a thousand groups", lambda _: (1000, 1)),
        ("as many groups as jobs", lambda count: (count, 1)),
        ("a hundred priorities", lambda _: (10, 100)),
    ],
)
def test_a_claim_meets_as_many_rows_however_many_jobs_of_groups_wait(
    dsn: str, analysed: str, lanes: bool, name: str, spread: Callable[[int], tuple[int, int]]
) -> None:
    options = "-c search_path=inturn"
    with psycopg.connect(dsn, autocommit=True, options=options) as connection:
        few, many = (
            count_claim(connection, analysed, count, "b", groups, lanes, priorities)
            for count in (2_000, 20_000)
            for groups, priorities in [spread(count)]
        )
    for before, after in zip(few, many, strict=True):
        assert after <= before * 1.1 + 5, (name, few, many)


def test_a_job_without_a_group_costs_a_probe_a_claim(query: Query) -> None:
    [[worker]] = query("SELECT register_worker('w', 'here', 1, '{default}', 10)")

    def count() -> int:
        query("SELECT pg_stat_force_next_flush()")
        query("SELECT pg_stat_clear_snapshot()")
        return int(query(PROBES)[0][0])

    for lock in ("NULL", "a"):
        before = count()
        for _ in range(10):
            query("SELECT defer('t', lock => nullif(%s, 'NULL'))", lock)
            [[ids, claims]] = query(CLAIM_AND_FINISH, worker)
            query(
                "SELECT finish(%s, '{default}', 10, %s, %s, '{succeeded}', ARRAY[NULL::jsonb])",
                worker, ids, claims,
            )  # fmt: skip
        assert count() - before in (10, 11)  # one a claim, and one if a statement is planned
