"""A change of many jobs reads the history once for 50,000 of them, and not in each step."""

from contextlib import suppress
from typing import Any

import psycopg
import pytest

from inturn.operations.changes import bulk
from inturn.operations.changes.jobs import JobFilter
from inturn.sql import fill_schema
from tests.sql.counted import Counter
from tests.sql.test_listing_cost import FILL

pytestmark = pytest.mark.fresh_database
SMALL, LARGE = 3_000, 15_000  # finished jobs
FAILED = 2 * bulk.STEP
FAIL = "UPDATE finished_jobs SET status = 'failed' WHERE id > %s AND id <= %s"


def change(connection: psycopg.Connection[Any], counter: Counter) -> tuple[int, list[int]]:
    """Return how often the jobs are looked up, and the pages of each step."""
    looks, steps, done = 0, [], bulk.Bulk()
    operation = bulk.change_jobs("retry", JobFilter(task="t"), done)
    rows: Any = None
    with suppress(StopIteration):
        while True:
            statement = operation.send(rows)
            with counter.count() as work:
                text = fill_schema(statement.text, "inturn")
                rows = connection.execute(text, statement.parameters).fetchall()
            looks += "find_jobs" in statement.text
            if "change_jobs" in statement.text:
                steps.append(work.pages)
    assert done.changed == FAILED
    return looks, steps


def test_a_step_costs_the_same_whatever_the_history_holds(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute("SELECT prepare_history(3)")
        counter = Counter(connection)
        connection.execute(FILL, [1, SMALL])
        costs = []
        for last in (SMALL, LARGE):
            connection.execute(FAIL, [last - FAILED, last])
            connection.execute("VACUUM ANALYZE finished_jobs, jobs")
            looks, steps = change(connection, counter)
            assert (looks, len(steps)) == (1, FAILED // bulk.STEP)
            costs.append(max(steps))
            connection.execute("DELETE FROM jobs")
            if last == SMALL:
                connection.execute(FILL, [SMALL + 1, LARGE])
        few, many = costs
        assert many < 1.5 * few + 20, costs
