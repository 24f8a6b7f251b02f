"""A job that has waited too long for a slot of its worker does not start."""

import math
from typing import Any

import anyio
import pytest

from inturn import App, Task
from inturn.worker.claiming import claiming
from inturn.worker.options import options
from inturn.worker.worker import Worker
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
OF_STATUS = "SELECT FROM jobs WHERE id = %s AND status = %s"


async def test_a_job_that_was_claimed_ahead_expires_before_its_turn(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "STALE_SECONDS", math.inf)  # jobs ahead stay while we look
    ran = []
    go_on = anyio.Event()

    @app.task
    async def work(name: str) -> None:
        ran.append(name)
        if name == "long":
            await go_on.wait()

    prefetch = claiming.Prefetch(1)
    prefetch.note_ended(100_000)  # as after a burst of short jobs
    # A claim that just misses the late job would take it for one that needs a slot at once.
    monkeypatch.setattr(prefetch, "slow_down", lambda: None)
    worker = Worker(app, app.connector, options({"install_signal_handlers": False}), prefetch)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(worker.run)
        work.defer(name="long")
        await until(lambda: ran)
        try:
            late = await _defer_until_claimed(work, query, until)
            behind = work.configure(lock="a").defer(name="behind")
            await until(lambda: query(f"{OF_STATUS} AND expires_at < clock()", late, "doing"))
        finally:
            go_on.set()  # the worker ends only after its job
        await until(lambda: query("SELECT FROM jobs") == [])
        group.cancel_scope.cancel()
    assert ran == ["long", "behind"]
    ended = {job.id: job for job in app.job_manager.list_jobs(lock="a")}
    assert (ended[late].status, ended[behind].status) == ("cancelled", "succeeded")
    assert ended[late].errors[0]["error"].startswith("expired: the worker")


async def _defer_until_claimed(work: Task[..., Any], query: Query, until: Until) -> int:
    """Defer a job that expires soon, again if it has expired before a worker claimed it."""
    late = work.configure(lock="a", expires_in={"seconds": 1}).defer(name="late")
    await until(lambda: not query(OF_STATUS, late, "todo"))
    if query(OF_STATUS, late, "doing"):
        return late
    return await _defer_until_claimed(work, query, until)
