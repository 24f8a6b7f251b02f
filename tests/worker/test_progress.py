"""What tasks tell about their progress, on a real server."""

import re
import threading
import time
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import psycopg
import pytest

from inturn import App, JobContext
from inturn.model import ProgressReport
from inturn.operations.changes.jobs import list_stalled_jobs
from inturn.worker.connection import WorkerConnection
from inturn.worker.unreported import PROGRESS_PAUSE, ProgressReports
from tests.conftest import Query, Until
from tests.proxy import Faulty

pytestmark = pytest.mark.anyio
TOLD = "SELECT progress->'done', progress->'total', progress->>'text' FROM all_jobs ORDER BY id"
COUNT_WRITES = """
CREATE TABLE writes (at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
    'BEGIN INSERT INTO inturn.writes DEFAULT VALUES; RETURN NULL; END';
CREATE TRIGGER count_write AFTER INSERT OR UPDATE ON progress
    FOR EACH ROW EXECUTE FUNCTION count_write();
"""


@pytest.fixture
def owner(dsn: str) -> Any:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        yield connection


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_job_tells_is_seen_while_it_runs_and_its_last_word_after_its_end(
    app: App, query: Query, until: Until, is_async: bool
) -> None:
    may_end = threading.Event()

    def work(context: JobContext) -> None:
        context.progress(3, 10, "three")
        may_end.wait()
        context.progress(10, 10)

    async def work_in_loop(context: JobContext) -> None:
        context.progress(3, 10, "three")
        await anyio.to_thread.run_sync(may_end.wait)
        context.progress(10, 10)

    task: Any = work_in_loop if is_async else work
    job_id = app.task(name="work", pass_context=True)(task).defer()
    async with anyio.create_task_group() as group:
        group.start_soon(app.run_worker_async)
        try:
            await until(lambda: query(TOLD) == [(3, 10, "three")])
            check_that_everybody_sees_it(app, query, job_id)
        finally:
            may_end.set()
    assert query(TOLD) == [(10, 10, None)]
    assert query("SELECT status::text FROM all_jobs") == [("succeeded",)]


def check_that_everybody_sees_it(app: App, query: Query, job_id: int) -> None:
    assert query("SELECT progress->>'text' FROM live_jobs") == [("three",)]
    [detail] = [r.detail for r in app.job_manager.explain(job_id) if r.reason == "progress"]
    assert re.fullmatch("3 of 10 at .+: three", detail)
    [seen] = app.job_manager.list_jobs(id=job_id)
    [slow] = app.connector.run(list_stalled_jobs(timedelta(0), timedelta(0), None, None))
    for job in (seen, slow):
        told = job.progress
        assert told is not None
        assert (told.done, told.total, told.text) == (3, 10, "three")
        assert told.updated_at == query("SELECT updated_at FROM progress")[0][0]


@pytest.mark.fresh_database
async def test_any_number_of_calls_are_a_few_writes_and_the_last_one_is_stored(
    app: App, query: Query, owner: psycopg.Connection[Any]
) -> None:
    owner.execute(COUNT_WRITES)
    calls = 300_000  # more than a second of them

    @app.task(pass_context=True)
    def work(context: JobContext) -> None:
        for number in range(calls):
            context.progress(number + 1, calls)

    work.defer()
    began = time.monotonic()
    await app.run_worker_async()
    seconds = time.monotonic() - began
    assert query(TOLD) == [(calls, calls, None)]
    [(writes,)] = query("SELECT count(*) FROM writes")
    # One at once, one after each pause, and one at the end.
    assert 2 <= writes <= 2 + seconds / PROGRESS_PAUSE


async def test_whoever_sees_the_end_of_a_job_sees_its_last_word(
    app: App, query: Query, until: Until
) -> None:
    @app.task(pass_context=True)
    async def work(context: JobContext) -> None:
        for done in range(1, 4):
            context.progress(done)
            await anyio.lowlevel.checkpoint()

    ended: list[Any] = []

    def all_have_ended() -> bool:
        ended[:] = query("SELECT progress->'done' FROM all_jobs WHERE status = 'succeeded'")
        assert set(ended) <= {(3,)}
        return len(ended) == 200

    work.batch_defer(*[{}] * 200)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(all_have_ended)
        group.cancel_scope.cancel()


async def test_the_newest_word_is_stored_when_the_calls_pause(
    app: App, query: Query, until: Until
) -> None:
    """The second and the third come within a second after the first was stored."""
    may_go_on, may_end = threading.Event(), threading.Event()

    @app.task(pass_context=True)
    def work(context: JobContext) -> None:
        context.progress(1)
        may_go_on.wait()
        context.progress(2)
        context.progress(3)
        may_end.wait()

    work.defer()
    async with anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, abort_job_polling_interval=600.0))
        try:
            await until(lambda: query(TOLD) == [(1, None, None)])
            may_go_on.set()
            await until(lambda: query(TOLD) == [(3, None, None)])
        finally:
            may_go_on.set()
            may_end.set()
    assert query("SELECT status, progress->'done' FROM all_jobs") == [("succeeded", 3)]


async def test_the_last_word_of_a_job_that_goes_back_is_stored_before_the_worker_leaves(
    app: App, query: Query, until: Until
) -> None:
    told = anyio.Event()

    @app.task(pass_context=True)
    async def work(context: JobContext) -> None:
        context.progress(1)
        await until(lambda: query(TOLD) == [(1, None, None)])
        context.progress(2)
        told.set()
        await anyio.sleep_forever()

    work.defer()
    async with anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True, shutdown_graceful_timeout=0.0))
        await told.wait()
        group.cancel_scope.cancel()
    assert query("SELECT status::text FROM all_jobs") == [("todo",)]
    assert query(TOLD) == [(2, None, None)]


@pytest.mark.fresh_database
async def test_what_is_told_during_a_write_is_kept_for_the_next_one(
    app: App, query: Query, owner: psycopg.Connection[Any], until: Until
) -> None:
    [(function,)] = query("SELECT pg_get_functiondef('report_progress'::regproc)")
    slow = function.replace("BEGIN", "BEGIN PERFORM pg_advisory_xact_lock(7);", 1)
    owner.execute(slow.replace("SET lock_timeout TO '50ms'", "SET lock_timeout TO '0'").encode())
    connection = WorkerConnection(app.connector)
    reports = ProgressReports(connection, lambda: None)
    reports.note(ProgressReport(1, 1, 1, None, None))
    owner.execute("SELECT pg_advisory_lock(7)")
    async with anyio.create_task_group() as group:
        group.start_soon(reports.store_all)
        await until(
            lambda: query("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        )
        reports.note(ProgressReport(1, 1, 2, None, None))
        owner.execute("SELECT pg_advisory_unlock(7)")
    assert query("SELECT done FROM progress") == [(1,)]
    await reports.store_all()
    assert query("SELECT done FROM progress") == [(2,)]
    assert not reports
    await connection.close()


async def test_each_of_many_jobs_keeps_its_own_last_word(app: App, query: Query) -> None:
    @app.task(pass_context=True)
    async def work(context: JobContext, number: int) -> None:
        for done in range(number + 1):
            context.progress(done, 99)

    work.batch_defer(*({"number": number} for number in range(50)))
    await app.run_worker_async(concurrency=7)
    assert query(TOLD) == [(number, 99, None) for number in range(50)]


@pytest.mark.fresh_database
async def test_a_job_that_tells_nothing_costs_no_row_and_no_statement(
    app: App, query: Query, owner: psycopg.Connection[Any]
) -> None:
    owner.execute(
        "CREATE OR REPLACE FUNCTION report_progress(p_ids bigint[], p_fences bigint[], "
        "p_done bigint[], p_totals bigint[], p_texts text[]) RETURNS void LANGUAGE plpgsql AS "
        "'BEGIN RAISE EXCEPTION USING MESSAGE = ''called''; END'"
    )

    @app.task(pass_context=True)
    async def work(context: JobContext) -> None:
        context.should_abort()

    work.defer()
    await app.run_worker_async()
    assert query("SELECT status::text, progress FROM all_jobs") == [("succeeded", None)]
    assert query("SELECT FROM progress") == []


async def test_a_failed_job_keeps_its_last_word_and_starts_anew_when_it_is_run_again(
    app: App, query: Query
) -> None:
    seen: list[Any] = []

    @app.task(pass_context=True)
    def work(context: JobContext) -> None:
        seen.append(query(TOLD))
        if len(seen) == 1:
            context.progress(41, 100, "the last word")
            raise ValueError("no")

    job_id = work.defer()
    await app.run_worker_async()
    assert query(TOLD) == [(41, 100, "the last word")]
    app.job_manager.retry_job_by_id(job_id)
    await app.run_worker_async()
    assert seen == [[(None, None, None)]] * 2
    assert query(TOLD) == [(None, None, None)]


@pytest.mark.parametrize("ends", ["is retried", "snoozes"])
async def test_a_job_that_waits_keeps_its_last_word_until_its_next_attempt_starts(
    app: App, query: Query, ends: str
) -> None:
    seen: list[Any] = []

    @app.task(pass_context=True, retry=2)
    async def work(context: JobContext) -> None:
        seen.append(query(TOLD))
        if len(seen) == 1:
            context.progress(1, text="asleep")
            if ends == "snoozes":
                context.snooze({"hours": 1})
            raise ValueError("no")

    job_id = work.defer()
    await app.run_worker_async()
    assert query("SELECT status::text FROM all_jobs") == [("scheduled",)]
    assert query(TOLD) == [(1, None, "asleep")]
    app.job_manager.retry_job_by_id(job_id)
    await app.run_worker_async()
    assert seen == [[(None, None, None)]] * 2


async def test_a_job_that_ends_in_its_own_transaction_keeps_its_last_word(
    app: App, query: Query
) -> None:
    @app.task(pass_context=True)
    async def work(context: JobContext) -> None:
        async with context.transaction():
            context.progress(7, 7)

    work.defer()
    await app.run_worker_async()
    assert query(TOLD) == [(7, 7, None)]


async def test_the_task_does_not_notice_that_the_table_is_locked_and_its_job_ends(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    """The end of the job does not wait for the lock either."""

    @app.task(pass_context=True)
    async def work(context: JobContext) -> None:
        context.progress(1)

    async with await psycopg.AsyncConnection.connect(dsn) as other:
        await other.execute("LOCK TABLE inturn.progress IN SHARE MODE")
        work.defer()
        async with anyio.create_task_group() as group:
            worker = partial(app.run_worker_async, wait=True, shutdown_graceful_timeout=5.0)
            group.start_soon(worker)
            await until(lambda: query("SELECT FROM finished_jobs WHERE status = 'succeeded'"))
            assert query("SELECT FROM progress") == []
            await other.rollback()
            await until(lambda: query(TOLD) == [(1, None, None)])
            group.cancel_scope.cancel()


async def test_while_the_table_is_locked_it_is_tried_once_a_second_and_not_at_each_end(
    app: App, dsn: str, query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(pass_context=True)
    async def work(context: JobContext) -> None:
        context.progress(1)

    caplog.set_level("DEBUG", "inturn.worker.unreported")
    work.configure(lock="one after the other").batch_defer(*[{}] * 100)
    async with await psycopg.AsyncConnection.connect(dsn) as other:
        await other.execute("LOCK TABLE inturn.progress IN SHARE MODE")
        began = time.monotonic()
        await app.run_worker_async()
        seconds = time.monotonic() - began
    assert query("SELECT count(*) FROM all_jobs WHERE status = 'succeeded'") == [(100,)]
    tries = sum("progress.late" in line for line in caplog.messages)
    assert 1 <= tries <= 2 + seconds / PROGRESS_PAUSE  # the last one when the worker ends


async def test_a_worker_prunes_the_progress_of_jobs_that_are_gone(
    app: App, query: Query, owner: psycopg.Connection[Any], until: Until
) -> None:
    owner.execute(
        "INSERT INTO progress SELECT n, n, 1, NULL, NULL, now() FROM generate_series(1000, 2200) AS n"
    )
    async with anyio.create_task_group() as group:
        worker = partial(app.run_worker_async, wait=True, update_heartbeat_interval=0.05)
        group.start_soon(worker)
        await until(lambda: query("SELECT count(*) FROM progress") == [(0,)])
        group.cancel_scope.cancel()
    assert query("SELECT count(*) FROM progress") == [(0,)]


async def test_what_is_told_during_an_outage_is_stored_when_the_database_is_back(
    faulty_server: tuple[Faulty, str],
    query: Query,
    until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxy, address = faulty_server
    app = App(address)
    is_away, told, may_end = (threading.Event() for _ in range(3))

    @app.task(pass_context=True)
    def work(context: JobContext) -> None:
        context.progress(1)
        is_away.wait()
        context.progress(2, 3, "while it was away")
        told.set()
        may_end.wait()

    async with app.open_async(), anyio.create_task_group() as group:
        await work.defer_async()
        group.start_soon(partial(app.run_worker_async, wait=False, install_signal_handlers=False))
        try:
            await until(lambda: query(TOLD) == [(1, None, None)])
            proxy.refuse()
            proxy.reset()
            is_away.set()
            await until(lambda: told.is_set() and "database.lost" in caplog.text)
            proxy.heal()
            await until(lambda: query(TOLD) == [(2, 3, "while it was away")])
        finally:
            proxy.heal()
            is_away.set()
            may_end.set()
    assert query("SELECT status::text FROM all_jobs") == [("succeeded",)]


async def test_what_the_database_refuses_is_dropped_and_holds_up_nothing_else(
    app: App, query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    connection = WorkerConnection(app.connector)
    reports = ProgressReports(connection, lambda: None)
    for fence, done in ((1, 5), (2, -1), (3, 7)):
        reports.note(ProgressReport(fence, fence, done, None, None))
    await reports.store_all()
    await connection.close()
    assert query("SELECT job_id, done FROM progress ORDER BY job_id") == [(1, 5), (3, 7)]
    assert not reports
    assert "progress.refused: job 2" in caplog.text
