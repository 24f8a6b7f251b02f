"""A slice costs the same, however many jobs have ended before and after it.

INTURN_TEST_GROWTH=1000000 goes to 10⁶, as `make stress` does.
"""

import math
import os
from statistics import linear_regression

import psycopg
import pytest

from tests.sql.counted import Counter

pytestmark = [pytest.mark.fresh_database, pytest.mark.proof]

LARGEST = int(os.environ.get("INTURN_TEST_GROWTH") or 100_000)
SIZES = [10**power for power in range(4, round(math.log10(LARGEST)) + 1)]
FLAT = 0.1
# A thousand lanes and ten jobs a second, each of which runs for half a second.
GROW = """
INSERT INTO finished_jobs (id, created_at, started_at, finished_at, status, on_retry, on_failure,
    priority, attempts, queue, task, lock, limit_key, fence, args, errors)
SELECT n, at, at, at + interval '0.5 s', 'succeeded', 'hold', 'continue', 0, 1, 'default', 't',
    'lane ' || n %% 1000, 'key ' || n %% 100, n, '{}', '[]'
FROM generate_series(%s::bigint, %s) AS n
CROSS JOIN LATERAL (SELECT now() - interval '100 days' + n * interval '0.1 s') AS time(at)
"""
SLICE = """
SELECT verdict, jobs, cardinality(kept) FROM verify_slice(%s, '{}', clock())
WHERE verdict NOT IN ('unknown')
"""


def test_a_slice_touches_as_many_pages_and_rows_beside_many_jobs_as_beside_few(dsn: str) -> None:
    pages, rows = {}, {}
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute("SELECT set_limit('key *', 1)")
        counter, last = Counter(connection), 0
        for size in SIZES:
            connection.execute(GROW, [last + 1, size])
            connection.execute("VACUUM ANALYZE finished_jobs")
            last = size
            found = connection.execute(SLICE, [size // 2]).fetchall()  # what a session caches
            assert [row[:2] for row in found] == [("read", 2000)]
            assert found[0][2] <= 1000, "of a minute"
            with counter.count() as work:
                connection.execute(SLICE, [size // 2]).fetchall()
            pages[size], rows[size] = work.pages, work.rows
    assert slope(pages) < FLAT, pages
    assert slope(rows) < FLAT, rows


def slope(costs: dict[int, int]) -> float:
    return linear_regression(
        [math.log10(size) for size in costs], [math.log10(cost) for cost in costs.values()]
    ).slope
