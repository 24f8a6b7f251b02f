"""Defect I: a connection lost inside context.transaction() failed a job without `retry`."""

from datetime import timedelta

import anyio
import psycopg
import pytest

from inturn import App, JobContext
from tests.conftest import Query

pytestmark = pytest.mark.anyio
END_YOURSELF = "SELECT pg_terminate_backend(pg_backend_pid())"


@pytest.mark.fresh_database
async def test_an_outage_inside_its_transaction_is_no_failure_of_a_task(
    app: App, dsn: str, query: Query
) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE inturn.written (attempt int)")
    fences: list[int] = []

    @app.task(pass_context=True, lock="lane")
    async def write(context: JobContext) -> None:
        fences.append(context.fence)
        async with context.transaction() as connection:
            await connection.execute(
                "INSERT INTO inturn.written VALUES (%s)", [context.job.attempts]
            )
            if context.job.attempts == 0:
                await connection.execute(END_YOURSELF)

    @app.task(pass_context=True)
    def write_in_a_thread(context: JobContext) -> None:
        with context.transaction() as connection:
            connection.execute("INSERT INTO inturn.written VALUES (%s)", [context.job.attempts])
            if context.job.attempts == 0:
                connection.execute(END_YOURSELF)

    write.defer()
    write_in_a_thread.defer()
    with anyio.fail_after(120):
        while query("SELECT FROM jobs"):
            await app.run_worker_async()
    assert query("SELECT status::text, attempts FROM finished_jobs") == [("succeeded", 2)] * 2
    assert query("SELECT attempt FROM written") == [(1,)] * 2
    assert fences == sorted(set(fences))


async def test_a_task_that_always_ends_its_connection_fails_in_the_end(
    app: App, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.worker.attempt.OUTAGE_PAUSE", timedelta(0))

    @app.task(pass_context=True)
    async def write(context: JobContext) -> None:
        async with context.transaction() as connection:
            await connection.execute(END_YOURSELF)

    write.defer()
    with anyio.fail_after(120):
        await app.run_worker_async()
    assert query("SELECT status::text, attempts FROM finished_jobs") == [("failed", 6)]
