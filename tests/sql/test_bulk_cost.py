"""A change of many jobs looks them up 50,000 at a time, and continues where it has stopped."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest

from inturn.operations.changes import bulk
from inturn.operations.changes.jobs import JobFilter
from inturn.sql import fill_schema
from inturn.states import ENDED
from tests.sql.counted import Counter
from tests.sql.test_listing_cost import FILL

pytestmark = pytest.mark.fresh_database
SMALL, LARGE = 3_000, 15_000  # finished jobs
FAILED = 2 * bulk.STEP
NO_MOVE = None, None
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


PAST_DAY = (
    "CREATE TABLE past_{0:%Y%m%d} PARTITION OF finished_jobs FOR VALUES FROM ('{0}Z') TO ('{1}Z')"
)
HISTORY = """
INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, priority, attempts, queue, task, lock,
                           args, errors)
SELECT n, at, at, CASE WHEN n <= 2500 THEN 'failed' ELSE 'succeeded' END::job_status, 'hold', 'continue',
       0, 1, 'q', 't', 'l' || n %% 50, '{}', '[]'
FROM generate_series(1, %(count)s::int) AS n
CROSS JOIN LATERAL (SELECT date_trunc('day', clock())   -- at any time, a step has its jobs in one day
                    - (%(count)s - n) * interval '3 days' / %(count)s) AS ended(at)
"""
FEW, MANY, PROOF = 10_000, 100_000, 1_000_000  # ended jobs, of which the first 2,500 have failed
READ = 1_000  # jobs
DEEPER = 12  # pages: the indexes of six days are higher


@pytest.fixture
def with_days(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A history of several days, each with its partition."""
    with psycopg.connect(
        dsn, autocommit=True, options="-c search_path=inturn -c timezone=UTC"
    ) as connection:
        connection.execute("SELECT prepare_history(1)")
        add_days(connection, 1, 5)
        yield connection


def add_days(connection: psycopg.Connection[Any], first: int, last: int) -> None:
    for days in range(first, last):
        day = now(connection).date() - timedelta(days)
        connection.execute(PAST_DAY.format(day, day + timedelta(1)).encode())


def now(connection: psycopg.Connection[Any]) -> datetime:
    time: datetime = connection.execute("SELECT clock()").fetchall()[0][0]
    return time


def read_cost(connection: psycopg.Connection[Any], count: int) -> dict[str, int]:
    """Return the pages of a preview, of the first look-up and of the next one."""
    connection.execute("TRUNCATE finished_jobs")
    connection.execute(HISTORY, {"count": count})
    connection.execute("VACUUM ANALYZE finished_jobs")
    counter, costs = Counter(connection), {}

    def read(name: str, text: LiteralString, *parameters: Any) -> list[tuple[Any, ...]]:
        with counter.count() as work:
            rows = connection.execute(fill_schema(text, "inturn"), parameters).fetchall()
        costs[name] = work.pages
        return rows

    until = now(connection)
    read(
        "", bulk.PREVIEW_JOBS, *JobFilter(before=until).parameters(), READ, True, *NO_MOVE
    )  # fill caches
    del costs[""]
    for name, which in {
        "all": JobFilter(ENDED, before=until),
        "of a task": JobFilter(ENDED, task="t", before=until),
        "of a queue": JobFilter(["succeeded"], queue="q", before=until),
        "of a prefix": JobFilter(ENDED, lock_prefix="l", before=until),
        "of long ago": JobFilter(ENDED, before=until - timedelta(1.5)),
        "failed": JobFilter(["failed"], before=until),
    }.items():
        asked = [*which.parameters(), READ, True]
        read(f"a preview: {name}", bulk.PREVIEW_JOBS, *asked, *NO_MOVE)
        *_, (id, lock, priority) = read(
            f"first: {name}", bulk.FIND_JOBS, *asked, *[None] * 3, *NO_MOVE
        )
        *_, (next, _, _) = read(
            f"next: {name}", bulk.FIND_JOBS, *asked, lock, priority, id, *NO_MOVE
        )
        assert next != id
    return costs


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(MANY, marks=pytest.mark.landing),
        pytest.param(PROOF, marks=pytest.mark.proof),
    ],
)
def test_looking_up_ended_jobs_costs_the_same_whatever_the_history_holds(
    with_days: psycopg.Connection[Any], count: int
) -> None:
    before = read_cost(with_days, FEW)
    after = read_cost(with_days, count)
    assert {
        name: (before[name], pages)
        for name, pages in after.items()
        if pages > 1.15 * before[name] + DEEPER
    } == {}


OLD_DAYS = 40


@pytest.mark.parametrize("action", ["retry", "delete"])
def test_a_step_does_not_look_for_each_job_in_each_day(
    with_days: psycopg.Connection[Any], action: str
) -> None:
    if with_days.info.server_version < 180000:
        pytest.skip("PostgreSQL 15 opens each day, as it always has")
    with_days.execute(HISTORY, {"count": FEW})
    with_days.execute("VACUUM ANALYZE finished_jobs")
    counter = Counter(with_days)

    def change(first: int) -> int:
        with counter.count() as work:
            outcomes = with_days.execute(
                "SELECT DISTINCT outcome FROM change_jobs(%s, %s, jobs_where('{failed}'))",
                [action, list(range(first, first + bulk.STEP))],
            ).fetchall()
        assert outcomes == [("done",)]
        return work.pages

    _, before = change(1), change(501)
    add_days(with_days, 5, 5 + OLD_DAYS)
    _, after = change(1001), change(1501)
    assert after - before < 20 * OLD_DAYS, "a few pages of each day, and none for each job"


LIVE_AND_ENDED = """
INSERT INTO jobs (id, created_at, status, task, lock) OVERRIDING SYSTEM VALUE
VALUES (1, now(), 'todo', 't', NULL), (2, now(), 'todo', 't', 'a'), (3, now(), 'todo', 't', 'a');
INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, priority, attempts, queue, task, lock,
                           args, errors)
SELECT 10 - n, now(), now() - n * interval '1 day', 'failed', 'hold', 'continue', n, 1, 'q', 't', 'b', '{}', '[]'
FROM generate_series(1, 4) AS n
"""


def test_a_deletion_looks_up_each_job_once_and_those_that_have_ended_last(
    with_days: psycopg.Connection[Any],
) -> None:
    with_days.execute(LIVE_AND_ENDED)
    which = JobFilter(before=now(with_days) + timedelta(1)).parameters()
    for limit in (1, 2, 3, 5, 100):
        found: list[int] = []
        last: tuple[Any, ...] = (None, None, None)
        while rows := with_days.execute(
            fill_schema(bulk.FIND_JOBS, "inturn"), [*which, limit, True, *last, *NO_MOVE]
        ).fetchall():
            found += [id for id, _, _ in rows]
            id, lock, priority = rows[-1]
            last = (lock, priority, id)
        assert found == [1, 3, 2, 6, 7, 8, 9], limit
