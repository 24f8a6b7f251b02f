"""The cost of a claim in pages touched. Counts repeat on a noisy machine, times do not."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

pytestmark = [pytest.mark.fresh_database, pytest.mark.landing]

Query = Callable[..., list[tuple[Any, ...]]]

BULK = """
SELECT count(id) FROM defer_jobs(
    array_fill('t'::text, ARRAY[%(n)s]), array_fill('{}'::jsonb, ARRAY[%(n)s]), array_fill('q'::text, ARRAY[%(n)s]),
    array_fill(%(lock)s::text, ARRAY[%(n)s]), array_fill(0, ARRAY[%(n)s]),
    array_fill(NULL::timestamptz, ARRAY[%(n)s]), array_fill(NULL::interval, ARRAY[%(n)s])
)
"""


class Bench:
    """One worker on one queue."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection
        ((self._worker,),) = self.query("SELECT register_worker('w', 'h', 1, '{q}', 1)")

    def query(self, statement: Any, parameters: Any = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()

    def defer(self, count: int, lock: str | None, each: int = 10_000) -> None:
        for start in range(0, count, each):
            self.query(BULK, {"n": min(each, count - start), "lock": lock})

    def claim(self) -> list[tuple[Any, ...]]:
        return self.query("SELECT id, lock FROM claim(%s, '{q}', 1)", [self._worker])

    def claim_pages(self) -> int:
        """One claim that finds a free job, and the pages that it and its functions touched."""
        self.defer(1, None)
        ((plan,),) = self.query(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT id FROM claim(%s, '{q}', 1)",
            [self._worker],
        )
        assert plan[0]["Plan"]["Actual Rows"] == 1
        return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])

    def settle(self) -> int:
        """Claim until the busy lane is no longer in front, then clean up as autovacuum does."""
        calls = 0
        while self.query("SELECT FROM jobs WHERE status = 'todo' AND lock IS NOT NULL LIMIT 1"):
            assert self.claim() == []
            calls += 1
            assert calls < 500, "what was seen in front is not set blocked"
        self._connection.execute("VACUUM jobs")
        self.claim()  # the first after a vacuum reads the visibility map again
        return calls


@pytest.fixture
def bench(dsn: str) -> Iterator[Bench]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield Bench(connection)


# Of SQL functions, only those in plpgsql; the others are part of their callers' plans.
STEPS = """
begin_claim claim claim_candidates look_ahead ready_queues start_jobs timeline
"""


def test_the_claim_of_a_free_job_calls_no_function_of_what_nobody_uses(bench: Bench) -> None:
    ((worker,),) = bench.query("SELECT register_worker('all', 'h', 1, NULL, 1)")
    bench.defer(1, None)
    bench.query("SELECT pg_stat_force_next_flush()")
    bench.query("SELECT set_config('track_functions', 'pl', false), pg_stat_reset()")
    assert len(bench.query("SELECT id FROM claim(%s, NULL, 1)", [worker])) == 1
    bench.query("SELECT pg_stat_force_next_flush()")
    called = bench.query("SELECT funcname FROM pg_stat_user_functions WHERE calls > 0")
    assert sorted(name for (name,) in called) == STEPS.split()


@pytest.mark.proof
def test_a_claim_costs_the_same_behind_a_hundred_and_a_million_jobs_of_a_busy_lane(
    bench: Bench,
) -> None:
    bench.defer(1, "busy")
    assert [lock for _, lock in bench.claim()] == ["busy"]
    pages = {}
    waiting = 0
    for total in (100, 10_000, 1_000_000):
        alone = (
            total - waiting
        ) // 50  # deferred one by one, so each is a token that stands in front
        bench.defer(alone, "busy", each=1)
        bench.defer(total - waiting - alone, "busy")
        waiting = total
        bench.settle()
        pages[total] = max(bench.claim_pages() for _ in range(5))
    assert max(pages.values()) < 2 * min(pages.values()), pages


def test_a_burst_of_one_lane_in_front_of_everything_is_cleared_in_a_few_calls(bench: Bench) -> None:
    bench.defer(1, "busy")
    assert bench.claim()
    bench.defer(2000, "busy", each=1)
    bench.defer(1, None)
    assert any(bench.claim() for _ in range(2))
    assert bench.settle() <= 2
