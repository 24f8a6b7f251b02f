"""lane_audit says who changed jobs and batches, if somebody is named, and costs nothing if not."""

from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from inturn.operations.changes.lanes import JOB_AUDIT
from tests.conftest import Query
from tests.sql.one_worker import Worker

Row = tuple[Any, ...]
AUDIT: LiteralString = (
    "SELECT who, operation, lock, jobs, reason, job_id, batch_id FROM lane_audit ORDER BY id"
)
WRITTEN: LiteralString = """
SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables
WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 ORDER BY relname
"""
CHANGE_JOBS: LiteralString = (
    "SELECT outcome FROM change_jobs(%s, %s, ROW(%s::job_status[], NULL, NULL, %s, NULL, NULL, "
    "NULL, NULL, NULL, NULL, '2030-01-02 03:04:05+00', NULL)::job_filter, %s, p_by => 'ana')"
)


def defer(query: Query, lock: str | None = "a", batch: int | None = None) -> int:
    [(id,)] = query("SELECT defer('t', lock => %s, batch_id => %s)", lock, batch)
    return int(id)


def claim(query: Query) -> list[Row]:
    [(worker,)] = query("SELECT register_worker('w', 'here', 1, NULL, 100)")
    return query("SELECT id, claim_id FROM claim(%s, NULL, 100)", worker)


def test_a_job_that_is_cancelled_retried_and_deleted(query: Query) -> None:
    id = defer(query)
    query("SELECT cancel_job(%s, p_by => 'ana')", id)
    query("SELECT retry_job(%s, 'ben')", id)
    query("SELECT delete_job(%s, 'eve')", id)
    assert query(AUDIT) == [
        ("ana", "cancel-job", "a", 1, None, id, None),
        ("ben", "retry-job", "a", 1, None, id, None),
        ("eve", "delete-job", "a", 1, None, id, None),
    ]


def test_a_job_without_a_lock(query: Query) -> None:
    id = defer(query, None)
    query("SELECT cancel_job(%s, p_by => 'ana')", id)
    assert query(AUDIT) == [("ana", "cancel-job", None, 1, None, id, None)]


def test_a_worker_is_asked_to_abort(query: Query) -> None:
    id = defer(query)
    claim(query)
    query("SELECT cancel_job(%s, p_by => 'ana')", id)
    assert query(AUDIT) == [], "nothing was changed"
    query("SELECT cancel_job(%s, true, 'ana')", id)
    assert query(AUDIT) == [("ana", "abort-job", "a", 1, None, id, None)]


def test_a_job_that_is_retried_with_changes(query: Query) -> None:
    id = defer(query)
    query("SELECT cancel_job(%s)", id)
    query("SELECT retry_job_changed(%s, p_priority => 5, p_lock => 'b', p_by => 'ana')", id)
    assert query(AUDIT) == [
        ("ana", "retry-job", "b", 1, None, id, None),
        ("ana", "change-job", "b", 1, "priority 5, lock b", id, None),
    ]


def test_the_lane_that_a_retry_sets_going_names_the_person(query: Query) -> None:
    ids = [int(query("SELECT defer('t', lock => %s, on_failure => 'halt')", lock)[0][0])
           for lock in ("a", "b", "c")]  # fmt: skip
    for id, claim_id in claim(query):
        query("SELECT finish(NULL, NULL, 0, %s, %s, '{failed}', '{\"{}\"}')", [id], [claim_id])
    query("SELECT retry_job(%s, 'ana')", ids[0])
    query("SELECT retry_job_changed(%s, p_lock => 'd', p_by => 'ana')", ids[1])
    query(CHANGE_JOBS, "retry", ids[2:], ["failed"], None, False)
    assert [row[:3] + row[4:6] for row in query(AUDIT)] == [
        ("ana", "retry-head", "a", None, ids[0]),
        ("ana", "retry-head", "b", "it moves to another lane", ids[1]),
        ("ana", "retry-job", "d", None, ids[1]),
        ("ana", "change-job", "d", "lock d", ids[1]),
        ("ana", "retry-head", "c", None, ids[2]),
        ("ana", "retry-jobs", None, "failed, before 2030-01-02 03:04:05Z", ids[2]),
    ]


def test_a_step_of_a_bulk_has_one_row(query: Query) -> None:
    ids = [defer(query) for _ in range(3)]
    claim(query)
    query(CHANGE_JOBS, "cancel", ids, ["todo", "blocked", "doing"], "a", True)
    query(CHANGE_JOBS, "cancel", ids, ["todo", "blocked"], "a", False)  # this changes nothing
    reason = "todo or blocked or doing, lock a, before 2030-01-02 03:04:05Z"
    assert query(AUDIT) == [
        ("ana", "cancel-jobs", "a", 2, reason, None, None),
        ("ana", "abort-jobs", "a", 1, reason, ids[0], None),
    ]


def test_a_filter_in_words(query: Query) -> None:
    row = (
        "ROW('{failed}', 'mail', 'send', NULL, 'q', '0198a000-0000-7000-8000-000000000000', 7, "
        "'g', 'customer:', 'no \"money\"', '2030-01-02 03:04:05+02', %s)::job_filter"
    )
    shared = (
        "queue mail, task send, lock customer:*, queueing lock q, "
        "worker 0198a000-0000-7000-8000-000000000000, batch 7, group g, "
        'error "no \\"money\\"", before 2030-01-02 01:04:05Z'
    )
    describe = f"SELECT describe_filter({row})"
    assert query(describe, None) == [(f"failed, {shared}",)]
    assert query(describe, [3, 4]) == [(f"{shared}, of 2 chosen: 3 4",)]
    [(many,)] = query(describe, list(range(100)))
    assert many.endswith("of 100 chosen: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 …")
    [(long,)] = query(
        "SELECT describe_filter(ROW(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
        "repeat('x', 5000), NULL, NULL)::job_filter)"
    )
    assert len(long) == 1000


def test_a_batch_that_is_closed_and_cancelled(query: Query) -> None:
    [(batch,)] = query("SELECT open_batch('import')")
    for _ in range(3):
        defer(query, batch=batch)
    query("SELECT close_batch(%s, 'ana')", batch)
    query("SELECT close_batch(%s, 'ana')", 4711)
    last: int | None = 0
    while last is not None:  # a step for each job, since they have a lock
        [(last,)] = query("SELECT last FROM cancel_batch(%s, %s, p_by => 'ben')", batch, last)
    claim(query)
    query("SELECT close_batch(%s, 'eve')", batch)
    query("SELECT cancel_batch(%s, p_by => 'eve')", batch)
    assert query(AUDIT) == [
        ("ana", "close-batch", None, 0, "import", None, batch),
        ("ben", "cancel-batch", None, 3, "import", None, batch),
    ]


def test_nothing_is_recorded_without_a_name_or_a_change(query: Query) -> None:
    ids = [defer(query) for _ in range(3)]
    [(batch,)] = query("SELECT open_batch('import')")
    for statement in ("cancel_job(%s)", "retry_job(%s)", "delete_job(%s)"):
        query(f"SELECT {statement}", ids[0])
    query("SELECT cancel_job(%s)", ids[1])
    query("SELECT retry_job_changed(%s, p_priority => 5)", ids[1])
    query(CHANGE_JOBS.replace("p_by => 'ana'", "p_by => NULL"), "cancel", ids, ["todo"], None, True)
    query("SELECT close_batch(%s)", batch)
    query("SELECT cancel_batch(%s)", batch)
    for gone in ("cancel_job(%s, true, 'ana')", "retry_job(%s, 'ana')", "delete_job(%s, 'ana')",
                 "retry_job_changed(%s, p_by => 'ana')"):  # fmt: skip
        query(f"SELECT {gone}", 4711)
    assert query(AUDIT) == []


@pytest.fixture
def worker(dsn: str) -> Iterator[Worker]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield Worker(connection)


@pytest.mark.fresh_database
@pytest.mark.parametrize("lock", [None, "a"])
def test_an_app_that_cancels_its_jobs_pays_nothing(worker: Worker, lock: str | None) -> None:
    """The same statements and rows, and one of each more only if somebody is named."""

    def cancel(*by: str) -> tuple[int, set[Row]]:
        [(id,)] = worker.query("SELECT defer('t', lock => %s)", lock)
        worker.query("SELECT pg_stat_force_next_flush()")
        with worker.connection.transaction(), worker.counter.count() as work:
            worker.query("SELECT cancel_job(%s, false, %s)", id, *(by or (None,)))
            written = set(worker.query(WRITTEN))
        return len(work.plans), written

    cancel()
    cancel("ana")  # from here on, the plans are known
    statements, written = cancel()
    named_statements, named = cancel("ana")
    assert written
    assert "lane_audit" not in {table for table, *_ in written}
    assert named - written == {("lane_audit", 1, 0, 0)}
    assert named_statements - statements == 2  # `PERFORM audit(…)`, and its INSERT


@pytest.mark.fresh_database
@pytest.mark.parametrize("others", [0, 2000])
def test_the_changes_of_a_job_are_found_among_those_of_others(worker: Worker, others: int) -> None:
    worker.connection.execute(
        "INSERT INTO lane_audit (at, who, operation, jobs, job_id) "
        "SELECT now(), 'ana', 'cancel-job', 1, 1 + n %% %s FROM generate_series(1, %s) AS n",
        [others + 1, others + 100],
    )
    worker.connection.execute("ANALYZE lane_audit")
    listed = JOB_AUDIT.replace("{schema}", "inturn")
    with worker.counter.count() as work:
        assert len(worker.query(listed, 1, 10)) == min(10, 100 if not others else 1)
    assert work.rows <= 50
