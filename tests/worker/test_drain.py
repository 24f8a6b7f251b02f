"""A worker that was told to stop stays reachable until the last of its jobs has ended."""

import threading
from typing import Any

import anyio
import pytest

from inturn import App, JobContext
from inturn.worker.options import options
from inturn.worker.worker import Worker
from tests.conftest import NO_POLL, Query, Until

pytestmark = pytest.mark.anyio


def worker(app: App, **given: Any) -> Worker:
    quiet = {"install_signal_handlers": False, "fetch_job_polling_interval": NO_POLL}
    return Worker(app, app.connector, options(quiet | given))


BY_NOTIFICATION = {"update_heartbeat_interval": NO_POLL, "stalled_worker_timeout": 3 * NO_POLL}
BY_HEARTBEAT = {
    "update_heartbeat_interval": 0.05,
    "stalled_worker_timeout": 1,
    "listen_notify": False,
}


@pytest.mark.parametrize(
    "way", [BY_NOTIFICATION, BY_HEARTBEAT], ids=["by notification", "by heartbeat"]
)
async def test_a_job_can_be_aborted_while_its_worker_drains(
    app: App, query: Query, until: Until, way: dict[str, Any]
) -> None:
    started: list[str] = []

    @app.task
    async def stay() -> None:
        started.append("async")
        await anyio.sleep_forever()

    @app.task(pass_context=True)
    def stay_sync(context: JobContext) -> None:
        started.append("sync")
        while not context.should_abort():
            threading.Event().wait(0.005)

    ids = stay.defer(), stay_sync.defer()
    draining = worker(app, concurrency=2, **way)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(draining.run)
        await until(lambda: len(started) == 2)
        draining.stop()
        await until(
            lambda: draining._state.is_stopped and not draining._state.wakeups._woken.is_set()
        )  # it sleeps for good
        for id in ids:
            assert await app.job_manager.cancel_job_by_id_async(id, abort=True)
    assert query("SELECT id, status::text FROM finished_jobs ORDER BY id") == [
        (ids[0], "aborted"),
        (
            ids[1],
            "succeeded",
        ),  # it ended as if it were done: a sync task says otherwise with JobAborted
    ]
    assert query("SELECT * FROM workers") == []


async def test_the_heart_of_a_draining_worker_goes_on_beating(
    app: App, query: Query, until: Until
) -> None:
    started, go = anyio.Event(), anyio.Event()

    @app.task
    async def stay() -> None:
        started.set()
        await go.wait()

    stay.defer()
    draining = worker(app, update_heartbeat_interval=0.05, stalled_worker_timeout=1)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(draining.run)
        await until(started.is_set)  # a claimed job that has not started goes back at the stop
        draining.stop()
        before = query("SELECT heartbeat_at FROM workers")
        await until(lambda: query("SELECT heartbeat_at FROM workers") > before)
        go.set()
    assert query("SELECT status::text FROM finished_jobs") == [("succeeded",)]


async def test_a_job_can_time_out_while_its_worker_drains(app: App, query: Query) -> None:
    started = anyio.Event()

    @app.task(timeout=0.3)
    async def stay() -> None:
        started.set()
        await anyio.sleep_forever()

    stay.defer()
    draining = worker(app)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(draining.run)
        await started.wait()
        draining.stop()
    assert query("SELECT status::text FROM finished_jobs") == [("failed",)]
