"""While all claims of a worker are filled nobody wakes it; before it sleeps it says that it may be asleep."""

import threading
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import psycopg
import pytest

from inturn import App
from tests.flow.conftest import Query

pytestmark = pytest.mark.anyio
Until = Callable[[Callable[[], object]], Awaitable[None]]
AWAKE = "SELECT FROM workers WHERE awake"
ASLEEP = "SELECT FROM workers WHERE NOT awake"


async def test_a_busy_worker_says_that_it_is_awake_and_then_sleeps_and_is_woken(
    app: App, query: Query, until: Until, dsn: str
) -> None:
    done: list[int] = []
    go_on = threading.Event()

    @app.task
    def work(number: int) -> None:
        done.append(number)
        if number == 400:
            go_on.wait(60)

    async with app.open_async(), anyio.create_task_group() as group:
        with psycopg.connect(dsn) as latecomer:
            work.batch_defer(*({"number": n} for n in range(800)))
            group.start_soon(partial(app.run_worker_async, wait=True, fetch_job_polling_interval=3600))
            await until(lambda: 400 in done)
            threading.Timer(0.3, go_on.set).start()  # all its claims are filled for longer than a moment
            await until(lambda: query(AWAKE))
            work.configure(connection=latecomer).defer(number=1000)  # sees it awake, tells nobody
            await until(lambda: len(done) == 800 and query(ASLEEP))
            latecomer.commit()
            await until(lambda: 1000 in done)
        await until(lambda: query(ASLEEP))
        work.defer(number=1001)
        await until(lambda: 1001 in done)
        group.cancel_scope.cancel()
