"""What progress costs: rows and pages, which repeat on any machine."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from inturn.testing import Databases
from tests.sql.counted import Counter
from tests.sql.one_worker import AT_ONCE, CLAIM, LANES, Worker

pytestmark = pytest.mark.fresh_database

TELL = (
    "SELECT report_progress(array_agg(n), array_agg(n), array_agg(%s::bigint), "
    "array_agg(NULL::bigint), array_agg('text'::text)) FROM generate_series(1, 20::bigint) AS n"
)
PRUNE = "SELECT prune_progress(%s, %s)"
FILL = "INSERT INTO progress SELECT n, n, 1, NULL, NULL, now() FROM generate_series(%s::int, %s) n"
JOBS = (
    "INSERT INTO jobs (id, created_at, status, task, fence) OVERRIDING SYSTEM VALUE "
    "SELECT n, now(), 'todo', 't', n FROM generate_series(%s::int, %s) AS n"
)
HISTORY = (
    "INSERT INTO finished_jobs (id, created_at, finished_at, status, on_retry, on_failure, "
    "priority, attempts, queue, task, args, errors, fence) "
    "SELECT n, now(), now(), 'failed', 'hold', 'continue', 0, 1, 'q', 't', '{}', '[]', n "
    "FROM generate_series(%s::int, %s) AS n"
)
SMALL, LARGE = 2_000, 50_000


@pytest.fixture
def connection(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield connection


def rows(connection: psycopg.Connection[Any], statement: str, *parameters: object) -> int:
    with Counter(connection).count() as work:
        connection.execute(statement.encode(), parameters).fetchall()
    return work.rows


@pytest.mark.landing
def test_no_call_on_the_way_of_a_job_reads_or_writes_progress(
    connection: psycopg.Connection[Any],
) -> None:
    """A job that tells nothing pays nothing."""
    connection.execute(FILL, [1, SMALL])
    connection.execute("SELECT pg_stat_force_next_flush()")
    usage = (
        "SELECT seq_scan, idx_scan, n_tup_ins, n_tup_upd, n_tup_del, n_tup_hot_upd "
        "FROM pg_stat_user_tables WHERE relname = 'progress'"
    )
    before = connection.execute(usage).fetchone()
    worker = Worker(connection)
    worker.fill()
    for _ in range(LANES // 2 // AT_ONCE):
        worker.query(CLAIM, worker.id, AT_ONCE)
    worker.work()
    calls = {"claim", "finish", "retry", "put_back", "rescue", "reconcile"}
    assert calls <= worker.rows.keys()
    connection.execute("SELECT pg_stat_force_next_flush()")
    assert connection.execute(usage).fetchone() == before


def test_telling_again_writes_one_version_and_touches_no_index(
    connection: psycopg.Connection[Any],
) -> None:
    for done in range(500):
        connection.execute(TELL, [done])
    connection.execute("SELECT pg_stat_force_next_flush()")
    counts = connection.execute(
        "SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd, pg_relation_size('progress') / 8192 "
        "FROM pg_stat_user_tables WHERE relname = 'progress'"
    ).fetchone()
    assert counts == (20, 20 * 499, 20 * 499, 1)


def test_a_round_of_pruning_looks_at_so_many_rows_whatever_there_is_and_was_analysed(
    databases: Databases,
) -> None:
    costs = []
    for size, analysed in ((SMALL, True), (LARGE, True), (LARGE, False)):
        with (
            databases.clone() as dsn,
            psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection,
        ):
            connection.execute("VACUUM ANALYZE")  # empty: all that the planner may ever learn
            connection.execute(FILL, [1, size])
            connection.execute(JOBS, [1, size // 2])
            connection.execute(HISTORY, [size // 2 + 1, size])
            if analysed:
                connection.execute("VACUUM ANALYZE progress, jobs, finished_jobs")
            costs.append(rows(connection, PRUNE, size // 2 - 50, 100))
    assert max(costs) <= 1.15 * min(costs), costs


def test_pruning_goes_on_where_it_stopped(connection: psycopg.Connection[Any]) -> None:
    connection.execute(FILL, [1, 250])
    connection.execute(JOBS, [100, 120])
    steps: list[int | None] = [0]
    while steps[-1] is not None:
        steps += [step for (step,) in connection.execute(PRUNE, [steps[-1], 100])]
    assert steps == [0, 100, 200, None]
    [left] = connection.execute("SELECT count(*), min(job_id), max(job_id) FROM progress")
    assert left == (21, 100, 120)


@pytest.mark.parametrize("analysed", ["empty", "full"])
def test_a_list_of_jobs_looks_up_the_progress_of_those_that_it_shows(
    connection: psycopg.Connection[Any], analysed: str
) -> None:
    listed = "SELECT id, progress FROM list_jobs(50)"
    connection.execute("VACUUM ANALYZE")
    connection.execute(JOBS, [1, LARGE])
    bare = rows(connection, listed)
    connection.execute(FILL, [1, LARGE])
    if analysed == "full":
        connection.execute("VACUUM ANALYZE progress")
    assert rows(connection, listed) <= bare + 100


def test_sql_refuses_what_python_refuses(connection: psycopg.Connection[Any]) -> None:
    call = "SELECT report_progress('{1}', '{1}', ARRAY[%s::bigint], ARRAY[%s::bigint], ARRAY[%s])"
    for done, total, text in ((-1, None, None), (1, -1, None), (1, 1, "x" * 201), (None, 1, "x")):
        with pytest.raises(psycopg.IntegrityError):
            connection.execute(call, [done, total, text])
    connection.execute(call, [9, 3, "x" * 200])


def test_a_deleted_job_leaves_nothing_that_it_told(connection: psycopg.Connection[Any]) -> None:
    connection.execute(FILL, [1, 2])
    connection.execute(HISTORY, [1, 2])
    assert connection.execute("SELECT delete_job(1), delete_job(7)").fetchall() == [(True, False)]
    assert connection.execute("SELECT job_id FROM progress").fetchall() == [(2,)]


def test_telling_waits_a_moment_for_a_lock_and_no_more(
    connection: psycopg.Connection[Any], dsn: str
) -> None:
    connection.execute("SET statement_timeout = '20s'")  # so that it ends if it waits for long
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE inturn.progress IN SHARE MODE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute(TELL, [1])
