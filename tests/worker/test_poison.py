"""A job that kills one worker after the other. For the races see tests/race/test_poison.py."""

import logging
from dataclasses import dataclass

import anyio
import pytest

from inturn import App
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("limit", "ends"), [(2, "failed"), (3, "succeeded"), (None, "succeeded")])
async def test_a_worker_gives_up_a_job_over_which_too_many_died(
    app: App,
    query: Query,
    until: Until,
    caplog: pytest.LogCaptureFixture,
    limit: int | None,
    ends: str,
) -> None:
    @app.task(lock="lane")
    def poison() -> None: ...

    job = poison.defer()
    query("SELECT id FROM claim(register_worker('dead', 'there', 1, NULL, 1), NULL, 1)")
    query('UPDATE jobs SET errors = \'[{"lost": true}, {"lost": true}]\' RETURNING 1')
    query("DELETE FROM workers RETURNING 1")  # it was declared dead
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(wait=True, max_lost_attempts=limit))
        await until(lambda: query("SELECT 1 FROM finished_jobs"))
        await until(lambda: ends != "failed" or "job.failed: job" in caplog.text)
        group.cancel_scope.cancel()
    assert query("SELECT id, status::text FROM finished_jobs") == [(job, ends)]
    assert ("job.failed: job" in caplog.text) == (ends == "failed")


@dataclass
class Exits:
    number: int

    def __post_init__(self) -> None:
        raise SystemExit("a value that ends the process")


async def test_a_value_that_exits_when_it_is_read_fails_its_job_and_the_worker_goes_on(
    app: App, query: Query
) -> None:
    @app.task(name="odd")
    async def odd(value: Exits) -> None: ...

    @app.task(name="even")
    async def even() -> None: ...

    query("""SELECT defer('odd', '{"value": {"number": 1}}')""")
    even.defer()
    await app.run_worker_async()
    ended = query("SELECT task, status::text FROM finished_jobs ORDER BY 1")
    assert ended == [("even", "succeeded"), ("odd", "failed")]


async def test_a_log_filter_that_fails_ends_the_job_and_not_the_worker(
    app: App, query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def work() -> None: ...

    def refuse(record: logging.LogRecord) -> bool:
        if "job.started" in record.msg:
            raise LookupError("the filter is broken")
        return True

    work.defer()
    jobs = logging.getLogger("inturn.jobs")
    jobs.addFilter(refuse)
    try:
        with caplog.at_level(logging.DEBUG, "inturn.jobs"), anyio.fail_after(120):
            await app.run_worker_async()
    finally:
        jobs.removeFilter(refuse)
    [(status, error)] = query("SELECT status::text, errors->0->>'error' FROM finished_jobs")
    assert status == "failed"
    assert "the filter is broken" in error
