"""A claim starts no more limited jobs than there are slots: that it is not filled means nothing."""

from functools import partial

import anyio
import pytest

from inturn import App
from inturn.worker.claiming import wakeups
from tests.conftest import Query, Until

pytestmark = [pytest.mark.anyio, pytest.mark.landing]
JOBS, SLOTS = 600, 5


async def keep_set(_: wakeups.AwakeFlag) -> bool:
    """Jobs have been coming for some time."""
    return True


async def test_it_is_followed_by_the_next_one_as_soon_as_its_jobs_have_ended(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "KEEP_LOOKING", 600.0)
    monkeypatch.setattr(wakeups.AwakeFlag, "keep_set", keep_set)

    @app.task
    async def work() -> None:
        pass

    app.limits.set("key:*", concurrency=1)
    for number in range(JOBS):
        work.configure(limit=f"key:{number}").defer()
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, concurrency=SLOTS, wait=True))
        await until(lambda: query("SELECT FROM jobs") == [])
        group.cancel_scope.cancel()
