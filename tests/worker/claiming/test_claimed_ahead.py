"""The server tells the jobs that a worker runs from those that it has claimed ahead."""

import math
from functools import partial

import anyio
import pytest

from inturn import App, JobContext
from inturn.worker.claiming import claiming
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
JOBS = 600


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("concurrency", [1, 3])
async def test_of_the_jobs_that_a_worker_has_those_are_doing_that_run(
    app: App,
    query: Query,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    concurrency: int,
    lanes: bool,
) -> None:
    monkeypatch.setattr(claiming, "STALE_SECONDS", math.inf)  # jobs ahead stay while we look
    begun: set[int] = set()
    held: set[int] = set()
    go_on = anyio.Event()

    def of_status(status: str) -> set[int]:
        return {id for (id,) in query("SELECT id FROM claimed_jobs WHERE status = %s", status)}

    @app.task(pass_context=True)
    async def hold_once_others_are_ahead(context: JobContext) -> None:
        begun.add(context.job.id)
        if not go_on.is_set() and of_status("claimed") - begun:
            held.add(context.job.id)
            await go_on.wait()

    for number in range(JOBS):
        lock = f"lane {number}" if lanes else None
        hold_once_others_are_ahead.configure(lock=lock).defer()
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, concurrency=concurrency, wait=True))
        try:
            await until(lambda: len(held) == concurrency)
            await until(lambda: of_status("doing") == held)  # the ends of the others are stored
            assert of_status("claimed")
            assert not of_status("claimed") & begun
            [seen] = query("SELECT claimed, doing, concurrency FROM worker_status")
            assert (seen[0] > 0, *seen[1:]) == (True, concurrency, concurrency)
            [counts] = app.job_manager.list_queues()
            assert (counts["claimed"] > 0, counts["doing"]) == (True, concurrency)
        finally:
            go_on.set()  # a worker that is cancelled waits for its jobs
        await until(lambda: query("SELECT FROM jobs") == [])
        group.cancel_scope.cancel()
