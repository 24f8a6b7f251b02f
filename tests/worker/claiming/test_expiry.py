"""A job that has waited too long for a slot of its worker does not start."""

from functools import partial

import anyio
import pytest

from inturn import App
from inturn.worker.claiming import prefetch
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
QUICK = 400


async def test_a_job_that_was_claimed_ahead_expires_before_its_turn(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "STALE_SECONDS", 60.0)  # jobs ahead stay while we look
    ran = []
    go_on = anyio.Event()

    @app.task
    async def work(name: str) -> None:
        ran.append(name)
        if name == "long":
            await go_on.wait()

    for _ in range(QUICK):
        work.defer(name="quick")
    work.defer(name="long")
    late = work.configure(lock="a", expires_in={"seconds": 2}).defer(name="late")
    behind = work.configure(lock="a").defer(name="behind")
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        claimed = "SELECT FROM jobs WHERE id = %s AND status = 'doing' AND expires_at < clock()"
        await until(lambda: query(claimed, late))
        go_on.set()
        await until(lambda: query("SELECT FROM jobs") == [])
        group.cancel_scope.cancel()
    assert ran[QUICK:] == ["long", "behind"]
    ended = {job.id: job for job in app.job_manager.list_jobs(lock="a")}
    assert (ended[late].status, ended[behind].status) == ("cancelled", "succeeded")
    assert ended[late].errors[0]["error"].startswith("expired: the worker")
