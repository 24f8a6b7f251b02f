"""The server tells the jobs that a worker runs from those that it has claimed ahead."""

from functools import partial

import anyio
import pytest

from inturn import App, JobContext
from inturn.worker.claiming import claiming
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
QUICK, LONG = 400, 200


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
    monkeypatch.setattr(claiming, "STALE_SECONDS", 60.0)  # jobs ahead stay while we look
    running: set[int] = set()
    go_on = anyio.Event()

    @app.task(pass_context=True)
    async def work(context: JobContext, is_quick: bool) -> None:
        running.add(context.job.id)
        if not is_quick:
            await go_on.wait()
        running.discard(context.job.id)

    def of_status(status: str) -> set[int]:
        return {id for (id,) in query("SELECT id FROM claimed_jobs WHERE status = %s", status)}

    for number in range(QUICK + LONG):
        lock = f"lane {number}" if lanes else None
        work.configure(lock=lock).defer(is_quick=number < QUICK)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, concurrency=concurrency, wait=True))
        await until(lambda: len(running) == concurrency and of_status("claimed"))
        await until(lambda: of_status("doing") == running)  # the ends of the quick ones are stored
        ahead = of_status("claimed")
        assert ahead
        assert not ahead & running
        [seen] = query("SELECT claimed, doing, concurrency FROM worker_status")
        assert (seen[0] > 0, *seen[1:]) == (True, concurrency, concurrency)
        [counts] = app.job_manager.list_queues()
        assert (counts["claimed"] > 0, counts["doing"]) == (True, concurrency)
        go_on.set()
        await until(lambda: query("SELECT FROM jobs") == [])
        group.cancel_scope.cancel()
