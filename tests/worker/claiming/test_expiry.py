"""A job that has waited too long for a slot of its worker does not start."""

from functools import partial

import anyio
import psycopg
import pytest

from inturn import App
from inturn.worker.claiming import claiming
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
QUICK = 400
SOON = {"seconds": 2}


async def test_a_job_that_was_claimed_ahead_expires_before_its_turn(
    app: App, dsn: str, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "STALE_SECONDS", 60.0)  # jobs ahead stay while we look
    ran = []
    go_on = anyio.Event()

    @app.task
    async def work(name: str) -> None:
        ran.append(name)
        if name == "long":
            await go_on.wait()

    work.batch_defer(*[{"name": "quick"}] * QUICK)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(lambda: len(ran) == QUICK)  # now it claims ahead
        with psycopg.connect(dsn) as once:
            work.configure(connection=once).defer(name="long")
            late = work.configure(connection=once, lock="a", expires_in=SOON).defer(name="late")
            behind = work.configure(connection=once, lock="a").defer(name="behind")
        claimed = "SELECT FROM jobs WHERE id = %s AND status = 'doing' AND expires_at < clock()"
        try:
            await until(lambda: query(claimed, late))
        finally:
            go_on.set()  # the worker ends only after its job
        await until(lambda: query("SELECT FROM jobs") == [])
        group.cancel_scope.cancel()
    assert ran[QUICK:] == ["long", "behind"]
    ended = {job.id: job for job in app.job_manager.list_jobs(lock="a")}
    assert (ended[late].status, ended[behind].status) == ("cancelled", "succeeded")
    assert ended[late].errors[0]["error"].startswith("expired: the worker")
