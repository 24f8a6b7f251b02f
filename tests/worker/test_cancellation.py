"""How running jobs are told to end, by a cancelled worker, an operator, or their timeout."""

import asyncio
import threading
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from inturn import App, JobContext
from inturn.exceptions import JobAborted
from tests.conftest import Query, Until

pytestmark = pytest.mark.anyio
LIMIT = 30  # seconds; only keeps a failing test from hanging


async def test_a_cancelled_worker_lets_its_jobs_finish_within_the_grace(
    app: App, query: Query
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await release.wait()

    work.defer()
    async with app.open_async():
        worker = asyncio.create_task(app.run_worker_async(shutdown_graceful_timeout=600))
        await started.wait()
        worker.cancel()
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(worker, LIMIT)
    assert query("SELECT status::text FROM all_jobs") == [("succeeded",)]
    assert query("SELECT * FROM workers") == []


async def test_a_cancelled_worker_asks_sync_tasks_to_end_after_the_grace(
    app: App, query: Query
) -> None:
    started = threading.Event()
    asked: list[bool] = []

    @app.task(pass_context=True, retry=3)
    def work(context: JobContext) -> None:
        started.set()
        while not context.should_abort():
            threading.Event().wait(0.01)
        asked.append(True)
        raise JobAborted(context.abort_reason)

    work.defer()
    async with app.open_async():
        worker = asyncio.create_task(app.run_worker_async(shutdown_graceful_timeout=0.05))
        await anyio.to_thread.run_sync(started.wait)
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(worker, LIMIT)
    assert asked == [True]
    # It is to run again after the deploy, and the worker's end is not its failure.
    assert query("SELECT status::text FROM all_jobs") == [("todo",)]


async def test_a_second_cancellation_gives_the_jobs_back_at_once(app: App, query: Query) -> None:
    started = asyncio.Event()

    @app.task
    async def stay() -> None:
        started.set()
        await anyio.sleep_forever()

    stay.defer()
    async with app.open_async():
        worker = asyncio.create_task(app.run_worker_async())
        await started.wait()
        for _ in range(2):
            worker.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(worker, LIMIT)
    assert query("SELECT status::text FROM all_jobs") == [("todo",)]


async def _abort_when(app: App, started: asyncio.Event, job_id: int) -> None:
    await started.wait()
    assert await app.job_manager.cancel_job_by_id_async(job_id, abort=True)


async def _run_and_abort(app: App, started: asyncio.Event, job_id: int) -> None:
    with anyio.fail_after(LIMIT):
        async with app.open_async(), anyio.create_task_group() as group:
            group.start_soon(app.run_worker_async)
            await _abort_when(app, started, job_id)


async def test_the_clean_up_of_an_aborted_task_may_await(app: App, query: Query) -> None:
    started = asyncio.Event()
    steps: list[str] = []

    @app.task
    async def work() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(0.02)
            await anyio.sleep(0.02)
            steps.append("closed")

    await _run_and_abort(app, started, work.defer())
    assert steps == ["closed"]
    assert query("SELECT status::text FROM all_jobs") == [("aborted",)]


async def test_the_clean_up_of_a_task_that_timed_out_may_await(app: App, query: Query) -> None:
    steps: list[str] = []

    @app.task(timeout=0.05)
    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(0.02)
            steps.append("closed")

    work.defer()
    await app.run_worker_async()
    assert steps == ["closed"]
    assert query("SELECT status::text FROM all_jobs") == [("failed",)]


async def test_a_task_that_shields_its_work_and_goes_on_has_succeeded(
    app: App, query: Query
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> None:
        inner = asyncio.ensure_future(release.wait())
        started.set()
        try:
            await asyncio.shield(inner)
        except asyncio.CancelledError:
            release.set()
            await inner
        await anyio.lowlevel.checkpoint()

    await _run_and_abort(app, started, work.defer())
    assert query("SELECT status::text FROM all_jobs") == [("succeeded",)]


async def test_a_shield_of_anyio_holds_the_cancellation_off_and_then_it_comes_once(
    app: App, query: Query, until: Until
) -> None:
    started, release = asyncio.Event(), asyncio.Event()
    steps: list[str] = []

    contexts: list[JobContext] = []

    @app.task(pass_context=True)
    async def work(context: JobContext) -> None:
        contexts.append(context)
        with anyio.CancelScope(shield=True):
            started.set()
            await release.wait()
            steps.append("shielded")
        try:
            await anyio.sleep_forever()
        finally:
            await anyio.sleep(0.05)
            steps.append("closed")

    job_id = work.defer()
    with anyio.fail_after(LIMIT):
        async with app.open_async(), anyio.create_task_group() as group:
            group.start_soon(app.run_worker_async)
            await _abort_when(app, started, job_id)
            await until(contexts[0].should_abort)
            release.set()
    assert steps == ["shielded", "closed"]
    assert query("SELECT status::text FROM all_jobs") == [("aborted",)]


@pytest.mark.parametrize("retry", [True, 5])
async def test_a_job_that_somebody_aborts_and_that_raises_is_not_tried_again(
    app: App, query: Query, retry: Any
) -> None:
    started = asyncio.Event()

    @app.task(retry=retry)
    async def work() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            raise RuntimeError("half done") from None

    await _run_and_abort(app, started, work.defer())
    [(status, attempts)] = query("SELECT status::text, attempts FROM all_jobs")
    assert (status, attempts) == ("failed", 1)


async def test_the_slot_of_an_aborted_task_runs_no_other_job_in_a_cancelled_state(
    app: App, query: Query
) -> None:
    started = asyncio.Event()

    @app.task
    async def stay() -> None:
        started.set()
        await anyio.sleep_forever()

    @app.task
    async def innocent() -> None:
        await anyio.sleep(0.01)

    job_id = stay.defer()
    innocent.batch_defer({}, {}, {})
    with anyio.fail_after(LIMIT):
        async with app.open_async(), anyio.create_task_group() as group:
            group.start_soon(partial(app.run_worker_async, concurrency=1))
            await _abort_when(app, started, job_id)
    assert query("SELECT status::text, count(*) FROM all_jobs GROUP BY 1 ORDER BY 1") == [
        ("aborted", 1),
        ("succeeded", 3),
    ]


async def test_a_job_that_raises_before_its_worker_hears_of_the_abort_is_not_tried_again(
    app: App, query: Query
) -> None:
    @app.task(pass_context=True, retry=True)
    async def work(context: JobContext) -> None:
        # It blocks the event loop, so the worker cannot hear of it before the task raises.
        assert app.job_manager.cancel_job_by_id(context.job.id, abort=True)
        raise ValueError

    work.defer()
    with anyio.fail_after(LIMIT):
        async with app.open_async():
            await app.run_worker_async()
    assert query("SELECT status::text, attempts FROM all_jobs") == [("failed", 1)]


@pytest.mark.parametrize("ends", ["returns", "raises", "is cancelled", "is cancelled and awaits"])
async def test_a_job_that_leaves_a_cancel_scope_open_fails_and_the_next_one_runs(
    app: App, query: Query, ends: str
) -> None:
    """Otherwise its slot could not end, and neither could the worker."""

    @app.task(name="careless")
    async def careless() -> None:
        outer, inner = anyio.CancelScope(), anyio.CancelScope()
        outer.__enter__()
        inner.__enter__()
        if ends == "raises":
            raise ValueError("it fails")
        if ends.startswith("is cancelled"):
            outer.cancel()
        if ends == "is cancelled and awaits":
            await anyio.lowlevel.checkpoint()

    await _run_with_a_careful_one(app, query, "careless")
    [(error,)] = query("SELECT errors->0->>'error' FROM all_jobs WHERE task = 'careless' LIMIT 1")
    assert {"raises": "it fails", "is cancelled and awaits": "CancelledError"}.get(
        ends, "left a cancel scope or a task group open"
    ) in error


async def test_a_job_that_leaves_a_task_group_open_fails_and_its_children_end(
    app: App, query: Query
) -> None:
    ended: list[str] = []

    @app.task(name="careless")
    async def careless() -> None:
        async def child() -> None:
            try:
                with anyio.move_on_after(3600):
                    await anyio.sleep_forever()
            finally:
                ended.append("child")

        group = anyio.create_task_group()
        await group.__aenter__()
        group.start_soon(child)
        await anyio.sleep(0.01)

    await _run_with_a_careful_one(app, query, "careless")
    assert ended == ["child"] * 3


async def _run_with_a_careful_one(app: App, query: Query, careless: str) -> None:
    @app.task(name="careful")
    async def careful() -> None:
        await anyio.sleep(0.01)

    for _ in range(3):
        app.configure_task(careless).defer()
        careful.defer()
    with anyio.fail_after(LIMIT):
        await app.run_worker_async(concurrency=1)
    ended = query("SELECT task, status::text, count(*) FROM all_jobs GROUP BY 1, 2 ORDER BY 1")
    assert ended == [("careful", "succeeded", 3), (careless, "failed", 3)]
