"""A claim and a finish touch as many pages and rows beside 10⁵ rows of each kind as beside 10³.

The tests count pages, which repeat on any machine, unlike seconds. On a double logarithmic scale
the slope is 1 if the cost grows in proportion. A tree that gets deeper shows as a few hundredths.
INTURN_TEST_GROWTH=1000000 goes to 10⁶, as `make stress` does. That takes too long for every day.
Rows are written by plain SQL, as the engine would leave them.
"""

import math
import os
from collections.abc import Iterator
from contextlib import closing
from statistics import linear_regression, median
from typing import Any, LiteralString

import psycopg
import pytest

from tests.sql.counted import Counter

pytestmark = [pytest.mark.fresh_database, pytest.mark.proof]

LARGEST = int(os.environ.get("INTURN_TEST_GROWTH") or 100_000)
SIZES = [10**power for power in range(3, round(math.log10(LARGEST)) + 1)]
FLAT = 0.1
TIMES = 5  # calls measured; we take the median, because an index page splits now and then

# `numbers` are the numbers of the rows to add.
GROW: dict[str, list[LiteralString]] = {
    "free jobs": [
        "INSERT INTO jobs (created_at, status, task) SELECT now(), 'todo', 't' FROM numbers"
    ],
    "jobs of a busy lane": [
        "INSERT INTO lanes (lock, worker_id, since) VALUES ('busy', %(other)s, now()) "
        "ON CONFLICT DO NOTHING",
        "INSERT INTO jobs (created_at, status, task, lock) "
        "SELECT now(), 'blocked', 't', 'busy' FROM numbers",
    ],
    "distinct lanes": [
        "INSERT INTO jobs (created_at, status, task, lock) "
        "SELECT now(), 'todo', 't', 'lane ' || n FROM numbers"
    ],
    "running jobs": [
        "INSERT INTO jobs (created_at, status, task, lock, claim_id, worker_id, fence, attempts, started_at) "
        "SELECT now(), 'doing', 't', 'lane ' || n, gen_random_uuid(), %(worker)s, 0, 1, now() "
        "FROM numbers",
        "INSERT INTO lanes (lock, worker_id, since) "
        "SELECT 'lane ' || n, %(worker)s, now() FROM numbers",
    ],
    "paused lanes": [
        "INSERT INTO jobs (created_at, status, task, lock) "
        "SELECT now(), 'blocked', 't', 'lane ' || n FROM numbers",
        "INSERT INTO lanes (lock, since, stopped, stopped_at, stopped_until, stopped_by) "
        "SELECT 'lane ' || n, now(), 'paused', now(), now() + interval '1 year', 'me' FROM numbers",
    ],
    "retrying lanes": [
        "WITH waiting AS ("
        "  INSERT INTO jobs (created_at, status, task, lock, attempts, scheduled_at)"
        "  SELECT now(), 'scheduled', 't', 'lane ' || n, 1, now() + interval '1 year'"
        "  FROM numbers RETURNING id, lock"
        ") INSERT INTO lanes (lock, job_id, since) SELECT lock, id, now() FROM waiting",
    ],
    "scheduled jobs": [
        "INSERT INTO jobs (created_at, status, task, lock, scheduled_at) "
        "SELECT now(), 'scheduled', 't', "
        "CASE n %% 2 WHEN 1 THEN 'lane ' || n %% 100 END, now() + interval '1 year' "
        "FROM numbers",
    ],
    "jobs of a batch": [
        "INSERT INTO jobs (created_at, status, task, batch_id) "
        "SELECT now(), 'todo', 't', 1 FROM numbers",
    ],
    "finished jobs of a batch": [
        "INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, priority, attempts, queue, task, "
        "args, errors, batch_id) SELECT -n, now(), now(), 'succeeded', 'hold', 'continue', 0, 1, 'default', 't', "
        "'{}', '[]', 1 FROM numbers",
    ],
    "open batches": [
        "INSERT INTO batches (name, opened_at, total) SELECT 'b', now(), 1 FROM numbers",
        "INSERT INTO batch_gates (batch_id) SELECT n FROM numbers",
        "INSERT INTO batch_events (batch_id, xact, event, jobs, at, due_at) "
        "SELECT n, 0, 'look', 0, now(), now() + interval '1 day' FROM numbers",
    ],
    "finished jobs": [
        "INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, priority, attempts, queue, task, "
        "lock, args, errors) SELECT -n, now(), now(), 'succeeded', 'hold', 'continue', 0, 1, 'default', 't', 'lane ' || n %% 100, "
        "'{}', '[]' FROM numbers",
    ],
    "progress that jobs have told": [
        "INSERT INTO progress SELECT -n, n, 1, 2, 'text', now() FROM numbers"
    ],
}  # fmt: skip

CLAIM: LiteralString = "SELECT id FROM claim(%s, NULL, 1)"
FINISH: LiteralString = (
    "SELECT finished_id, (next).id "
    "FROM finish(%s, NULL, 1, %s::bigint[], %s::uuid[], '{succeeded}', '{NULL}')"
)


class Bench:
    """One worker that serves all queues and runs one job at a time."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.connection = connection
        self.counter = Counter(connection)
        self.worker, self.other = (
            self.query("SELECT register_worker('w', 'h', 1, NULL, 1)")[0][0] for _ in range(2)
        )  # fmt: skip
        # They are live however long a test takes.
        connection.execute("UPDATE workers SET heartbeat_at = heartbeat_at + interval '1 day'")

    def query(self, statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters or None).fetchall()

    def grow(self, statements: list[LiteralString], first: int, last: int) -> None:
        numbers = {"first": first, "last": last, "worker": self.worker, "other": self.other}
        self.connection.execute("DROP TABLE IF EXISTS pg_temp.numbers")
        self.connection.execute(
            "CREATE TEMPORARY TABLE numbers AS SELECT n "
            "FROM generate_series(%(first)s::int, %(last)s) AS n",
            numbers,
        )
        for statement in statements:
            self.connection.execute(statement, numbers)
        self.connection.execute("VACUUM ANALYZE jobs, lanes, finished_jobs, progress")

    def work(self, statement: LiteralString, *parameters: object) -> dict[str, int]:
        """Return how many pages and rows it touches, with all functions that it calls."""
        with self.counter.count() as work:
            assert self.query(statement, *parameters), "it found nothing to do"
        return {"pages": work.pages, "rows": work.rows}

    def cost(self, lock: str | None, priority: int) -> dict[str, dict[str, int]]:
        """Return the work of one claim and of one finish with its hand-over. Both are undone."""
        # Two calls for a lane: the second job is its own token. The claim blocks it, and the finish
        # hands it over.
        for _ in range(2 if lock else 1):
            self.query(
                "SELECT id FROM defer_jobs('{t}', ARRAY['{}'::jsonb], '{default}', %s::text[], %s::int[], '{NULL}', '{NULL}')",
                [lock], [priority],
            )  # fmt: skip
        before = self.query("SELECT nextval('fences')")[0][0]
        claim = self.work(CLAIM, self.worker)
        [(id, claim_id)] = self.query(
            "SELECT id, claim_id FROM jobs WHERE status = 'doing' AND worker_id = %s "
            "AND fence > %s",
            self.worker,
            before,
        )
        finish = self.work(FINISH, self.worker, [id], [claim_id])
        for job in self.query(
            "SELECT id, claim_id FROM jobs WHERE status = 'doing' AND worker_id = %s "
            "AND fence > %s",
            self.worker,
            before,
        ):
            self.query(FINISH, self.worker, [job[0]], [job[1]])
        return {"claim": claim, "finish": finish}


@pytest.fixture
def bench(dsn: str) -> Iterator[Bench]:
    with closing(
        psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn")
    ) as connection:
        yield Bench(connection)


@pytest.mark.parametrize("kind", GROW)
def test_the_cost_of_a_claim_and_a_finish_does_not_grow_with(bench: Bench, kind: str) -> None:
    costs: dict[str, list[float]] = {}
    there = 0
    for size in SIZES:
        bench.grow(GROW[kind], there + 1, size)
        there = size
        for lock in ("warm up", None):  # the first calls after a VACUUM read the catalogue
            bench.cost(lock, 9)
        for name, lock, priority in (("lane", "mine", 9), ("front", None, 0)):
            measured = [bench.cost(lock, priority) for _ in range(TIMES)]
            for what in ("claim", "finish"):
                for unit in ("pages", "rows"):
                    costs.setdefault(f"{unit} of a {what} ({name})", []).append(
                        median(cost[what][unit] for cost in measured)
                    )
    slopes = {what: slope(counts) for what, counts in costs.items()}
    assert max(slopes.values()) < FLAT, f"at {SIZES}: {costs}"


def slope(counts: list[float]) -> float:
    """Of the line through the points in a double logarithmic picture."""
    return linear_regression(
        [math.log10(size) for size in SIZES], [math.log10(count) for count in counts]
    ).slope


def test_a_cost_that_grows_is_seen() -> None:
    assert slope([100 + size / 100 for size in SIZES]) > FLAT
    assert slope([100 + math.log10(size) for size in SIZES]) < FLAT
