"""A list or a count does not touch more pages as the history or the backlog grows.

Pages repeat, times do not.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from inturn.model import LIVE
from inturn.operations import Operation, Statement
from inturn.operations.changes.jobs import (
    COUNTED,
    JobFilter,
    count_jobs,
    count_jobs_by,
    get_status,
    list_jobs,
)
from inturn.operations.changes.lanes import list_lanes
from inturn.operations.engine.workers import list_queues, list_workers
from inturn.sql import fill_schema
from tests.sql.counted import Counter

pytestmark = [pytest.mark.fresh_database, pytest.mark.landing]

FILL = """
INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, priority, attempts, queue, task, lock,
                           args, errors)
SELECT n, now(), now() - n %% 3 * interval '1 day', 'succeeded', 'hold', 'continue', 0, 1, 'q', 't', 'l' || n, '{}', '[]'
FROM generate_series(%s::int, %s) AS n
"""


@pytest.fixture
def connection(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute("SELECT prepare_history(3)")
        yield connection


def pages(connection: psycopg.Connection[Any], operation: Operation[Any]) -> int:
    statement: Statement = next(operation)
    explain = fill_schema("EXPLAIN (ANALYZE, BUFFERS, FORMAT json) " + statement.text, "inturn")
    row = connection.execute(explain, statement.parameters).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def cost(connection: psycopg.Connection[Any]) -> dict[str, int]:
    connection.execute("VACUUM ANALYZE finished_jobs")
    return {
        "a list": pages(connection, list_jobs(JobFilter(), 100)),
        "a job": pages(connection, list_jobs(JobFilter(id=7), 100)),
        "queues": pages(connection, count_jobs_by("queue", JobFilter())),
        "locks": pages(connection, count_jobs_by("lock", JobFilter())),
    }


@pytest.mark.proof
def test_the_cost_of_a_list_and_a_count_does_not_grow_with_the_history(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(FILL, [1, 3 * COUNTED])
    before = cost(connection)
    connection.execute(FILL, [3 * COUNTED + 1, 12 * COUNTED])
    after = cost(connection)
    assert {
        name: pages for name, pages in after.items() if pages > 1.5 * before[name] + 20
    } == {}, before


LANES, IN_HAND = 500, 100
WAIT = f"""
INSERT INTO jobs (created_at, status, task, lock)
SELECT now(), 'todo', 't', CASE WHEN n %% 2 = 0 THEN 'lane ' || n %% {LANES} END
FROM generate_series(1, %s::int) AS n
"""


def backlog_cost(connection: psycopg.Connection[Any]) -> dict[str, int]:
    connection.execute("VACUUM ANALYZE jobs, lanes")
    [id] = connection.execute("SELECT max(id) FROM jobs").fetchone() or [0]
    costs = {
        "a status": pages(connection, get_status(id)),
        "queues": pages(connection, list_queues()),
        "workers": pages(connection, list_workers(100)),
        "lanes": pages(connection, list_lanes(50)),
    }
    for status in sorted(LIVE):
        which = JobFilter([status])
        costs[f"a list of {status}"] = pages(connection, list_jobs(which, 100))
        costs[f"a count of {status}"] = pages(connection, count_jobs(which, COUNTED))
        costs[f"queues of {status}"] = pages(connection, count_jobs_by("queue", which))
    return costs


def test_the_cost_of_the_statuses_that_people_see_does_not_grow_with_the_backlog(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(WAIT, [3 * COUNTED])
    worker = connection.execute("SELECT register_worker('w', 'h', 1, NULL, 2)").fetchone()
    assert worker is not None
    connection.execute("SELECT id FROM claim(%s, NULL, %s)", [worker[0], IN_HAND])
    before = backlog_cost(connection)
    connection.execute(WAIT, [9 * COUNTED])
    after = backlog_cost(connection)
    assert {
        name: pages for name, pages in after.items() if pages > 1.5 * before[name] + 20
    } == {}, before


MIXED = [["doing", "failed"], ["claimed", "doing", "failed"], ["doing", "scheduled"]]


def in_hand_cost(connection: psycopg.Connection[Any]) -> dict[str, int]:
    connection.execute("VACUUM ANALYZE jobs")
    counter, costs = Counter(connection), {}
    for statuses in MIXED:
        for call in (
            "list_jobs(10, jobs_where(%s::job_status[]))",
            "count_jobs(10, jobs_where(%s::job_status[]))",
        ):
            with counter.count() as work:
                connection.execute(f"SELECT * FROM {call}".encode(), [statuses])
            costs[f"{call[:5]} of {statuses}"] = work.rows
    return costs


def test_a_list_of_several_statuses_works_out_once_what_the_workers_have_in_hand(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(WAIT, [12 * IN_HAND])
    worker = connection.execute("SELECT register_worker('w', 'h', 1, NULL, 2)").fetchone()
    assert worker is not None
    claim = "SELECT count(*) FROM claim(%s, NULL, %s)"
    connection.execute(claim, [worker[0], IN_HAND])
    before = in_hand_cost(connection)
    connection.execute(claim, [worker[0], 3 * IN_HAND])
    after = in_hand_cost(connection)
    assert {
        name: rows for name, rows in after.items() if rows > 1.5 * 4 * before[name] + 20
    } == {}, before


def rows_of_queues(connection: psycopg.Connection[Any]) -> int:
    connection.execute("VACUUM ANALYZE jobs")
    with Counter(connection).count() as work:
        connection.execute("SELECT * FROM queue_status")
    return work.rows


def test_the_status_of_queues_does_not_read_for_each_queue_what_the_workers_have_in_hand(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(
        "INSERT INTO jobs (created_at, status, task, queue) "
        "SELECT now(), 'todo', 't', 'q' || n %% 60 FROM generate_series(1, %s) AS n",
        [13 * IN_HAND],
    )
    worker = connection.execute("SELECT register_worker('w', 'h', 1, NULL, 2)").fetchone()
    assert worker is not None
    claim = "SELECT count(*) FROM claim(%s, NULL, %s)"
    connection.execute(claim, [worker[0], IN_HAND])
    before = rows_of_queues(connection)
    for _ in range(11):
        connection.execute(claim, [worker[0], IN_HAND])
    assert rows_of_queues(connection) < before + 20 * 11 * IN_HAND


# The jobs of one lane, one batch and one group lie behind ever more others.
FLOW = """
INSERT INTO jobs (created_at, status, task, lock, locks, batch_id, group_key)
SELECT now(), 'todo', 't', 'a', '{a,b}', 1, 'tenant:7' FROM generate_series(1, 50)
"""
LINE = "INSERT INTO waits (lock, priority, id) SELECT 'b', 0, id FROM jobs WHERE lock = 'a'"
FILTERS = {
    "a lane": (JobFilter(["blocked"], lock="b"), 49),
    "what can start in a lane": (JobFilter(["todo"], lock="b"), 1),
    "a batch": (JobFilter(batch=1), 50),
    "what waits in a batch": (JobFilter(["todo", "blocked"], batch=1), 50),
    "what can start in a group": (JobFilter(["todo"], group="tenant:7"), 1),
}


def filtered_cost(connection: psycopg.Connection[Any]) -> dict[str, int]:
    connection.execute("VACUUM ANALYZE jobs, waits")
    costs = {}
    for name, (which, there) in FILTERS.items():
        statement = next(count_jobs(which, COUNTED))
        text = fill_schema(statement.text, "inturn")
        assert connection.execute(text, statement.parameters).fetchone() == (there, False), name
        costs[f"a list of {name}"] = pages(connection, list_jobs(which, 100))
        costs[f"a count of {name}"] = pages(connection, count_jobs(which, COUNTED))
    return costs


def test_the_jobs_of_a_lane_a_batch_or_a_group_are_found_without_reading_the_others(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(FLOW)
    connection.execute(LINE)
    connection.execute(WAIT, [3 * COUNTED])
    before = filtered_cost(connection)
    connection.execute(WAIT, [9 * COUNTED])
    after = filtered_cost(connection)
    assert {
        name: pages for name, pages in after.items() if pages > 1.5 * before[name] + 20
    } == {}, before


IN_LANES = """
INSERT INTO jobs (created_at, status, task, lock)
SELECT now(), 'todo', 't', %(lane)s || n / 2 FROM generate_series(2, 2 * %(lanes)s::int + 1) AS n
"""


def cost_of_starters(connection: psycopg.Connection[Any], which: JobFilter) -> list[int]:
    connection.execute("VACUUM ANALYZE jobs, lanes")
    return [pages(connection, list_jobs(which, 100)), pages(connection, count_jobs(which, COUNTED))]


def test_what_could_start_in_lanes_takes_two_probes_of_each(
    connection: psycopg.Connection[Any],
) -> None:
    costs = []
    for first, last in ((1, 1), (2, 9)):
        for part in range(first, last + 1):
            connection.execute(IN_LANES, {"lane": f"lane {part}.", "lanes": LANES})
        costs.append(cost_of_starters(connection, JobFilter(["todo"], task="other")))
    for before, after in zip(*costs, strict=True):
        assert after - before < 7.5 * 8 * LANES, costs


def test_what_could_start_under_a_prefix_does_not_read_the_other_lanes(
    connection: psycopg.Connection[Any],
) -> None:
    lanes = 50
    connection.execute(IN_LANES, {"lane": "z", "lanes": lanes})
    connection.execute(IN_LANES, {"lane": "other", "lanes": 2 * COUNTED})
    costs = cost_of_starters(connection, JobFilter(["todo"], lock_prefix="z"))
    assert max(costs) < 100 * lanes, costs
