"""Requests to abort jobs, on a real server."""

from functools import partial

import anyio
import psycopg
import pytest

from inturn import App
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio


async def test_a_look_at_what_is_to_be_aborted_is_made_again_when_a_lock_stood_in_its_way(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """Lock the table as soon as the request commits: the waiting session gets the lock then."""
    started = anyio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await anyio.sleep(3600)

    job_id = endless.defer()
    async with (
        await psycopg.AsyncConnection.connect(dsn) as asks,
        await psycopg.AsyncConnection.connect(dsn) as locks,
        anyio.create_task_group() as group,
    ):
        group.start_soon(partial(app.run_worker_async, abort_job_polling_interval=600.0))
        await started.wait()
        await asks.execute("SELECT inturn.cancel_job(%s, true)", [job_id])
        group.start_soon(locks.execute, "LOCK TABLE inturn.jobs")
        await until(
            lambda: query("SELECT FROM pg_locks WHERE NOT granted AND relation = 'jobs'::regclass")
        )
        await asks.commit()
        await until(lambda: "database.busy" in caplog.text)
        await locks.rollback()
    assert query("SELECT status::text FROM all_jobs") == [("aborted",)]
