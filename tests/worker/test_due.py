"""Scheduled jobs become ready in time even if lanes keep a worker's slots full."""

from datetime import timedelta
from functools import partial

import anyio
import pytest

from inturn import App
from tests.conftest import Until

pytestmark = [pytest.mark.anyio, pytest.mark.landing]


async def test_a_due_job_goes_before_the_rest_of_a_deep_lane_that_fills_all_slots(
    app: App, until: Until
) -> None:
    seen: list[str] = []

    @app.task
    async def step(name: str) -> None:
        seen.append(name)
        await anyio.sleep(0.15)  # so long that nothing is claimed ahead

    step.configure(lock="due", schedule_in=timedelta(seconds=0.5), priority=9).defer("due")
    step.configure(lock="deep").batch_defer(*({"name": "deep"} for _ in range(100)))
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(lambda: "due" in seen)
        group.cancel_scope.cancel()
    assert seen.index("due") < 90
