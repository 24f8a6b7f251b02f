"""A run that exceeds its timeout ends as a failure, to which the retry strategy applies."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

from inturn import App, JobContext, RetryStrategy
from inturn.errors import BadArgument, JobAborted, JobTimeout
from tests.conftest import Query

pytestmark = pytest.mark.anyio

LAST_ERROR = "SELECT status::text, attempts, errors -> -1 ->> 'error' FROM finished_jobs"


async def test_an_async_task_is_cancelled_when_its_time_is_up_and_the_lane_goes_on(
    app: App, query: Query
) -> None:
    seen: list[str] = []

    @app.task(lock="lane", timeout=0.05)
    async def stay(name: str) -> None:
        try:
            if name == "slow":
                await anyio.sleep_forever()
        finally:
            seen.append(name)

    stay.batch_defer({"name": "slow"}, {"name": "quick"})
    await app.run_worker_async()
    assert seen == ["slow", "quick"]
    (slow, quick) = query(LAST_ERROR + " ORDER BY id")
    assert slow[:2] == ("failed", 1)
    assert "JobTimeout: the run took longer than its timeout of 0:00:00.050000" in slow[2]
    assert quick == ("succeeded", 1, None)


async def test_a_job_says_its_own_timeout_and_one_without_has_none(app: App, query: Query) -> None:
    @app.task(timeout=timedelta(minutes=1))
    async def limited() -> None: ...

    @app.task
    async def free() -> None: ...

    limited.defer()
    limited.configure(timeout=5).defer()
    app.configure_task("elsewhere", timeout=0.5).defer()
    free.defer()
    rows = query("SELECT timeout FROM jobs ORDER BY id")
    assert rows == [
        (timedelta(minutes=1),),
        (timedelta(seconds=5),),
        (timedelta(seconds=0.5),),
        (None,),
    ]


async def test_the_retry_strategy_decides_about_a_timeout(app: App, query: Query) -> None:
    attempts: list[int] = []

    @app.task(
        timeout=0.05,
        retry=RetryStrategy(max_attempts=2, retry_exceptions=[JobTimeout]),
        pass_context=True,
    )
    async def stay(context: JobContext) -> None:
        attempts.append(context.job.attempts)
        if context.job.attempts < 2:
            await anyio.sleep_forever()

    stay.defer()
    await app.run_worker_async()
    assert attempts == [0, 1, 2]
    assert query("SELECT status::text, timeout FROM finished_jobs") == [
        ("succeeded", timedelta(seconds=0.05))
    ]


@pytest.mark.parametrize("ending", ["return", "JobAborted", "another error"])
async def test_a_sync_task_is_asked_and_fails_with_a_timeout_however_it_ends_then(
    app: App, query: Query, ending: str
) -> None:
    reasons: list[str | None] = []
    pause = threading.Event()

    @app.task(timeout=0.05, pass_context=True)
    def work(context: JobContext) -> None:
        while not context.should_abort():
            pause.wait(0.005)
        reasons.append(context.abort_reason)
        if ending == "JobAborted":
            raise JobAborted("as asked")
        if ending == "another error":
            raise ValueError("on the way out")

    work.defer()
    await app.run_worker_async()
    assert reasons == ["the run took longer than its timeout of 0:00:00.050000"]
    ((status, _, error),) = query(LAST_ERROR)
    assert status == "failed"
    assert "JobTimeout: the run took longer" in error
    assert ("on the way out" in error) == (ending == "another error")


async def test_an_async_task_that_turns_its_cancellation_into_an_error_has_timed_out_all_the_same(
    app: App, query: Query
) -> None:
    @app.task(timeout=0.05)
    async def stay() -> None:
        try:
            await anyio.sleep_forever()
        except BaseException:
            raise ValueError("something else") from None

    stay.defer()
    await app.run_worker_async()
    ((status, _, error),) = query(LAST_ERROR)
    assert status == "failed"
    assert error.endswith("timeout of 0:00:00.050000")
    assert "something else" in error


async def test_a_run_in_time_leaves_no_timer_behind(app: App, query: Query) -> None:
    contexts: list[JobContext] = []

    @app.task(pass_context=True)
    async def wait(context: JobContext, seconds: float) -> None:
        contexts.append(context)
        await anyio.sleep(seconds)

    wait.configure(timeout=0.2).defer(seconds=0)
    wait.configure(timeout=30).defer(seconds=0.4)
    await app.run_worker_async()
    assert query("SELECT status::text FROM finished_jobs") == [("succeeded",)] * 2
    assert [context.should_abort() for context in contexts] == [False, False]


async def test_a_job_that_is_run_again_keeps_its_timeout(app: App, query: Query) -> None:
    @app.task(timeout=60)
    async def nothing() -> None: ...

    id = nothing.defer()
    await app.run_worker_async()
    assert app.job_manager.retry_job_by_id(id)
    assert query("SELECT timeout FROM jobs") == [(timedelta(seconds=60),)]


@pytest.mark.parametrize(
    "value", [0, -1, "5", True, float("nan"), float("inf"), 10**12, timedelta(0), timedelta.max]
)
def test_a_timeout_that_is_none_is_refused_when_it_is_declared(app: App, value: Any) -> None:
    with pytest.raises(BadArgument, match=r"^timeout(:| is) "):
        app.configure_task("anything", timeout=value)
    with pytest.raises(BadArgument, match=r"^timeout(:| is) "):
        app.task(timeout=value)(lambda: None)


async def test_a_thread_that_ended_in_time_succeeds_although_the_loop_was_blocked(
    app: App, query: Query
) -> None:
    has_begun, is_blocked = threading.Event(), threading.Event()

    @app.task(timeout=1)
    def quick() -> None:
        has_begun.set()
        assert is_blocked.wait(60)

    @app.task
    async def block() -> None:
        while not has_begun.is_set():  # noqa: ASYNC110 (a thread sets it)
            await anyio.sleep(0.01)
        is_blocked.set()
        time.sleep(1.2)  # noqa: ASYNC251 (it blocks the loop until the deadline is over)

    quick.defer()
    block.defer()
    await app.run_worker_async(concurrency=2)
    assert query("SELECT DISTINCT status::text FROM finished_jobs") == [("succeeded",)]


@pytest.mark.parametrize("seconds", [0, 0.2])
async def test_middleware_that_goes_on_after_a_thread_is_cancelled(
    app: App, query: Query, seconds: float
) -> None:
    async def linger(call_next: Callable[[], Any], *_: object) -> Any:
        await call_next()
        await anyio.sleep_forever()

    @app.task(timeout=0.1)
    def stay() -> None:
        time.sleep(seconds)

    stay.defer()
    with anyio.fail_after(120):
        await app.run_worker_async(worker_middleware=[linger])
    [(status, _, error)] = query(LAST_ERROR)
    assert status == "failed"
    assert "JobTimeout" in error
