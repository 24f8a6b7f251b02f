"""Defect G: a timer that a finished task had left behind cancelled the slot it had run in.

The worker ended, or an innocent job failed.
"""

import asyncio
import logging
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from inturn import App
from tests.conftest import Query, Until
from tests.field.conftest import Start

pytestmark = pytest.mark.anyio
LIMIT = 60.0  # seconds; only keeps a failing test from waiting for the poll
LISTENERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'inturn listener'"
)


def leave_a_timer(seconds: float) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(seconds, task.cancel)


async def test_a_timer_that_a_task_left_behind_does_not_harm_the_next_job(
    app: App, query: Query
) -> None:
    @app.task
    async def leave() -> None:
        leave_a_timer(0.1)

    @app.task
    async def innocent() -> None:
        await anyio.sleep(0.3)

    leave.defer()
    innocent.batch_defer({}, {})
    with anyio.fail_after(120):
        await app.run_worker_async()
    assert query("SELECT task, status::text FROM finished_jobs WHERE status <> 'succeeded'") == []
    assert query("SELECT count(*) FROM finished_jobs") == [(3,)]


async def test_a_timer_that_finds_its_slot_idle_does_not_end_the_worker(
    app: App, query: Query, until: Until
) -> None:
    fired = anyio.Event()

    @app.task
    async def leave() -> None:
        leave_a_timer(0.05)
        asyncio.get_running_loop().call_later(0.1, fired.set)

    @app.task
    async def innocent() -> None: ...

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        leave.defer()
        with anyio.fail_after(120):
            await fired.wait()
        innocent.defer()
        await until(lambda: query("SELECT FROM finished_jobs WHERE task LIKE '%innocent'"))
        group.cancel_scope.cancel()
    assert query("SELECT count(*) FROM finished_jobs WHERE status = 'succeeded'") == [(2,)]


async def test_a_task_that_cancels_itself_and_returns_harms_nobody_else(
    app: App, query: Query
) -> None:
    @app.task
    async def cancel_yourself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    @app.task
    async def innocent() -> None:
        await anyio.lowlevel.checkpoint()

    for _ in range(3):
        cancel_yourself.defer()
        innocent.defer()
    with anyio.fail_after(120):
        await app.run_worker_async()
    assert query(
        "SELECT count(*) FROM finished_jobs WHERE task LIKE '%innocent' AND status = 'succeeded'"
    ) == [(3,)]
    assert query("SELECT count(*) FROM finished_jobs") == [(6,)]


async def test_a_helper_that_is_cancelled_is_started_again(
    app: App, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def cancel_helpers() -> None:
        for task in asyncio.all_tasks():
            if "_keep" in task.get_name():
                task.cancel()

    @app.task
    async def innocent() -> None: ...

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(lambda: query(LISTENERS))
        before = query(LISTENERS)
        cancel_helpers.defer()
        with anyio.move_on_after(LIMIT):
            await until(lambda: query(LISTENERS) not in ([], before))
            innocent.defer()
            await until(lambda: query("SELECT FROM finished_jobs WHERE task LIKE '%innocent'"))
        group.cancel_scope.cancel()
    assert caplog.text.count("worker.cancelled") == 2  # the listener, and the look now and then
    assert query("SELECT count(*) FROM finished_jobs WHERE status = 'succeeded'") == [(2,)], (
        "nobody heard of the job"
    )


@pytest.mark.landing
def test_code_that_cancels_everything_ends_the_worker_and_not_as_if_all_were_well(
    worker: Start, query: Query, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    app.configure_task("tests.field.field_app.cancel_all").defer()
    process = worker()
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1, stderr
    assert "ancelled" in stderr.splitlines()[-1]
    assert query("SELECT * FROM workers") == []


def test_the_next_job_is_not_run_by_a_task_that_somebody_still_refers_to(
    app: App, query: Query
) -> None:
    """Otherwise it would depend on luck whether the timer meets another job."""
    kept: list[Any] = []
    ran: list[Any] = []

    @app.task
    async def keep() -> None:
        kept.append(asyncio.current_task())

    @app.task
    async def run() -> None:
        ran.append(asyncio.current_task())

    keep.defer()
    run.batch_defer({}, {})
    app.run_worker(wait=False)
    assert kept[0] not in ran
