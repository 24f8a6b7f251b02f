"""Nobody notifies a worker whose claims are filled. Before it sleeps, it clears its awake flag."""

import math
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest

from inturn import App
from inturn.worker.claiming import wakeups
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
AWAKE = "SELECT FROM workers WHERE awake"
ASLEEP = "SELECT FROM workers WHERE NOT awake"


@pytest.mark.landing
async def test_a_busy_worker_says_that_it_is_awake_and_then_sleeps_and_is_woken(
    app: App, query: Query, until: Until, dsn: str
) -> None:
    done: list[int] = []
    seen_awake = anyio.Event()
    deferred = 0

    @app.task
    def work(number: int) -> None:
        done.append(number)

    async def fill() -> None:
        """Keep so many jobs waiting that each claim is filled."""
        nonlocal deferred
        while not seen_awake.is_set():
            if deferred - len(done) < 1500:
                more = range(deferred, deferred + 1500)
                await work.batch_defer_async(*({"number": number} for number in more))
                deferred = more.stop
            await anyio.lowlevel.checkpoint()

    async with app.open_async(), anyio.create_task_group() as group:
        with psycopg.connect(dsn) as latecomer:
            group.start_soon(fill)
            await until(lambda: deferred)
            group.start_soon(
                partial(app.run_worker_async, wait=True, fetch_job_polling_interval=3600)
            )
            await until(lambda: query(AWAKE))
            work.configure(connection=latecomer).defer(
                number=-1
            )  # sees it awake, and sends no notification
            seen_awake.set()
            await until(lambda: len(done) == deferred and query(ASLEEP))
            latecomer.commit()
            await until(lambda: -1 in done)
        await until(lambda: query(ASLEEP))
        work.defer(number=-2)
        await until(lambda: -2 in done)
        group.cancel_scope.cancel()
    assert sorted(done) == [-2, -1, *range(deferred)]


async def test_while_jobs_keep_coming_a_worker_looks_by_itself_and_nobody_wakes_it(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each job is deferred when the one before is done, so that no claim is filled."""
    monkeypatch.setattr(wakeups, "GAP_SECONDS", math.inf)  # on a slow machine, jobs keep coming too
    done: list[int] = []

    @app.task
    def work(number: int) -> None:
        done.append(number)

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(
            partial(
                app.run_worker_async, wait=True, concurrency=10, fetch_job_polling_interval=3600
            )
        )
        await until(lambda: query(ASLEEP))
        number = 0
        while not query(AWAKE):
            await work.defer_async(number=number)
            number += 1
            assert number < 20_000
        work.defer(number=-1)  # seen without a word
        await until(lambda: -1 in done and query(ASLEEP))
        work.defer(number=-2)  # after one
        await until(lambda: -2 in done)
        group.cancel_scope.cancel()


async def test_jobs_that_end_meanwhile_do_not_put_off_the_next_look(app: App, until: Until) -> None:
    """The worker hears nothing, and a lane keeps handing it short jobs."""
    steps: list[int] = []
    found = anyio.Event()

    @app.task(lock="lane")
    async def step(number: int) -> None:
        steps.append(number)
        await anyio.sleep(0.05)

    @app.task
    async def other() -> None:
        found.set()

    step.batch_defer(*({"number": n} for n in range(1000)))
    async with app.open_async(), anyio.create_task_group() as group:
        options: dict[str, Any] = {
            "wait": True,
            "concurrency": 2,
            "listen_notify": False,
            "fetch_job_polling_interval": 0.2,
        }
        group.start_soon(partial(app.run_worker_async, **options))
        await until(lambda: len(steps) > 3)
        other.defer()
        with anyio.fail_after(120):
            await found.wait()
        group.cancel_scope.cancel()
    assert len(steps) < 900
