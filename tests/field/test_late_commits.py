"""A claim or hand-over that commits after the worker has asked for its jobs is found."""

from functools import partial
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'inturn worker'
"""
SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'inturn worker'"
)
LATE_CLAIM = "SELECT id FROM claim((SELECT id FROM workers), ARRAY['aside'], 1)"
LATE_FINISH = """
SELECT (next).id FROM jobs, finish(worker_id, NULL, 1, ARRAY[id], ARRAY[claim_id], '{succeeded}', '{NULL}')
WHERE status = 'doing' AND next IS NOT NULL
"""


def cut(query: Query) -> None:
    """The connection is lost, while its last call, `late` below, goes on at the server."""
    query(CUT)


async def test_a_claim_that_commits_long_after_the_worker_has_reconnected_is_undone(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @app.task
    async def note(name: str) -> None:
        seen.append(name)

    async with app.open_async(), anyio.create_task_group() as group:
        options: dict[str, Any] = {
            "wait": True,
            "queues": ["default"],
            "abort_job_polling_interval": 0.2,
        }
        group.start_soon(partial(app.run_worker_async, **options))
        await until(lambda: query("SELECT id FROM workers"))
        late_job = note.configure(queue="aside").defer("late")
        with psycopg.connect(dsn, options="-c search_path=inturn") as late:
            late.execute(LATE_CLAIM)
            sessions = query(SESSIONS)
            cut(query)
            await until(lambda: query(SESSIONS) not in ([], sessions))
            note.defer("meanwhile")
            await until(lambda: seen == ["meanwhile"])  # it has asked for its jobs, and works on
            assert query("SELECT status FROM jobs WHERE id = %s", late_job) == [
                ("todo",)
            ]  # not committed
        await until(lambda: "job.found" in caplog.text)
        group.cancel_scope.cancel()
    assert query("SELECT id, status::text, attempts FROM jobs") == [
        (late_job, "todo", 0)
    ]  # for another claim


async def test_a_hand_over_that_commits_long_after_the_worker_has_reconnected_is_run(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    seen: list[int] = []
    release = anyio.Event()

    @app.task(lock="lane")
    async def step(number: int) -> None:
        seen.append(number)
        if number == 0:
            await release.wait()

    step.batch_defer({"number": 0}, {"number": 1})
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True, abort_job_polling_interval=0.2))
        await until(lambda: seen)
        with psycopg.connect(dsn, options="-c search_path=inturn") as late:
            late.execute(LATE_FINISH)
            release.set()  # the end is reported again, by a worker that knows nothing of that call
            sessions = query(SESSIONS)
            cut(query)
            await until(lambda: query(SESSIONS) not in ([], sessions))
        await until(lambda: seen == [0, 1])
        await until(lambda: query("SELECT FROM finished_jobs HAVING count(*) = 2"))
        group.cancel_scope.cancel()
    assert query(
        "SELECT count(*) FROM finished_jobs WHERE status = 'succeeded' AND attempts = 1"
    ) == [(2,)]
