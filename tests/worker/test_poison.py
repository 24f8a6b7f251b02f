"""A job that kills one worker after the other. For the races see tests/race/test_poison.py."""

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
        group.cancel_scope.cancel()
    assert query("SELECT id, status::text FROM finished_jobs") == [(job, ends)]
    assert ("job.failed: job" in caplog.text) == (ends == "failed")
