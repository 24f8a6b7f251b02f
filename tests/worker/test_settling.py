"""A worker settles what is due in other queues beside its claims."""

from functools import partial

import anyio
import pytest

from inturn import App
from tests.conftest import Query, Until

pytestmark = [pytest.mark.anyio, pytest.mark.landing]
DUE = "SELECT count(*) FROM jobs WHERE status = 'scheduled'"


async def test_a_worker_makes_many_jobs_of_another_queue_ready_at_once(
    app: App, until: Until, query: Query
) -> None:
    query(
        "INSERT INTO jobs (task, queue, created_at, status, scheduled_at) "
        "SELECT 't', 'theirs', now(), 'scheduled', now() FROM generate_series(1, 20000) RETURNING id"
    )
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True, queues=["ours"]))
        with anyio.fail_after(30):
            await until(lambda: query(DUE) == [(0,)])
        group.cancel_scope.cancel()
