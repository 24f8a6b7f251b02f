"""A task's result is stored with its job and reaches those who wait for it, without polling."""

import json
import logging
import math
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inturn import App, RetryStrategy
from inturn.control import results
from inturn.control.results import ResultListener
from inturn.database.session import Session
from inturn.errors import ConfigurationError, JobCancelled, JobFailed, JobNotFound, ResultTimeout
from inturn.model import Job
from inturn.operations import Operation
from inturn.operations.changes import jobs
from inturn.worker import result_json
from tests.conftest import NO_POLL, Query, Until
from tests.waiting import wait_until

pytestmark = pytest.mark.anyio
LONG = 400.0  # seconds, more than `until` waits: a waiter looks once more when its time is up


@pytest.fixture(autouse=True)
def nothing_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "POLL", NO_POLL)


class Breaks(dict[str, Any]):
    """A mapping whose items raise."""

    def items(self) -> Any:
        raise RuntimeError("do not touch")


async def test_the_return_value_of_a_task_is_the_result_of_its_job(app: App, query: Query) -> None:
    values: list[Any] = [{"a": [1, 2.5, None, "ü", True]}, [], "", 0, False, 2**70, "\\u0000"]

    @app.task
    async def give(n: int) -> Any:
        return values[n]

    @app.task
    def give_sync(n: int) -> Any:
        return values[n]

    for task in (give, give_sync):
        jobs = task.batch_defer(*({"n": n} for n in range(len(values))))
        await app.run_worker_async(concurrency=4)
        assert (
            [app.job_manager.result(int(job)) for job in jobs]
            == [job.result() for job in jobs]
            == values
        )
        async with app.open_async():
            assert [
                await app.job_manager.result_async(int(job), timeout=0) for job in jobs
            ] == values
            assert [await job.result_async(timeout=0) for job in jobs] == values


async def test_none_is_not_stored(app: App, query: Query) -> None:
    @app.task
    async def nothing() -> None: ...

    id = nothing.defer()
    await app.run_worker_async()
    assert query("SELECT result IS NULL FROM finished_jobs") == [(True,)]
    assert app.job_manager.result(id) is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"bytes", "JSON cannot represent a bytes"),
        ("a\0b", "the character NUL"),
        ({"\0": 1}, "the character NUL"),
        ("\ud800", "half of a surrogate pair"),
        (math.nan, "JSON has no nan"),
        ({1: 2}, "the key 1 would come back as '1'"),
        ("x" * 65535, "65,537 bytes of JSON; the limit is 65,536"),
        ("ü" * 33000, "66,002 bytes"),
        (10**5000, "4,200 digits"),
        (Breaks(a=1), "do not touch"),
        (object(), "cannot represent a object"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_result_that_cannot_be_stored_is_named_in_the_log_and_its_job_succeeds(
    app: App, query: Query, caplog: pytest.LogCaptureFixture, value: Any, why: str
) -> None:
    @app.task(lock="lane")
    async def give(good: bool) -> Any:
        return "good" if good else value

    ids = give.batch_defer({"good": False}, {"good": True})
    await app.run_worker_async()
    assert query("SELECT id, status::text, result FROM finished_jobs ORDER BY id") == [
        (ids[0], "succeeded", None),
        (ids[1], "succeeded", "good"),
    ]
    (warning,) = [
        record for record in caplog.records if record.message.startswith("job.result_not_stored")
    ]
    assert warning.levelno == logging.WARNING
    assert f": {ids[0]} " in warning.message
    assert why in warning.message


JOB = Job(1, "claim", 1, "task", "default", None, 0, 0, None, {})
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner)
    ),
    max_leaves=10,
)


@pytest.mark.landing
@settings(
    # However busy the machine is.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=300,
)
@given(value=ANYTHING)
def test_every_encoded_value_reads_back_the_same_and_can_be_stored(
    query: Query, value: Any
) -> None:
    text = result_json.encode(JOB, value, 2**16)
    if text is not None:
        assert json.loads(text) == value
        assert query("SELECT %s::jsonb IS NOT NULL", text) == [(True,)]


async def test_how_much_is_stored_is_an_option_of_the_worker(app: App, query: Query) -> None:
    @app.task
    async def give() -> str:
        return "12345"

    give.defer()
    await app.run_worker_async(max_result_size=6)
    assert query("SELECT result FROM finished_jobs") == [(None,)]
    give.defer()
    await app.run_worker_async(max_result_size=7)
    assert query("SELECT result FROM finished_jobs ORDER BY id DESC LIMIT 1") == [("12345",)]


# ---------------------------------------------------------------- to wait


async def test_waiters_in_threads_and_in_the_loop_are_notified_of_the_end(
    app: App, query: Query, until: Until
) -> None:
    go = anyio.Event()

    @app.task
    async def add(a: int, b: int) -> int:
        await go.wait()
        return a + b

    results: dict[str, Any] = {}

    async def wait(name: str, id: int) -> None:
        results[name] = await app.job_manager.result_async(id, timeout=LONG)

    first, second = add.defer(1, 2), add.defer(3, 4)
    async with app.open_async(), anyio.create_task_group() as group:
        with ThreadPoolExecutor() as threads:
            future = threads.submit(app.job_manager.result, first, LONG)
            for name, id in (("a", first), ("b", second), ("c", second)):
                group.start_soon(wait, name, id)
            await until(lambda: query("SELECT count(*) FROM jobs WHERE has_waiters") == [(2,)])
            await until(lambda: query(LISTENERS) == [(1,)])
            group.start_soon(lambda: app.run_worker_async(wait=True, concurrency=2))
            await until(lambda: query("SELECT count(*) FROM jobs WHERE status = 'doing'") == [(2,)])
            go.set()
            await until(lambda: len(results) == 3 and future.done())
            assert future.result() == 3
        group.cancel_scope.cancel()
    assert results == {"a": 3, "b": 7, "c": 7}
    await until(lambda: query(LISTENERS) == [(0,)])


LISTENERS = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'inturn results' AND datname = current_database()
"""


@pytest.mark.parametrize("in_loop", [False, True])
async def test_an_end_right_after_the_look_at_a_job_is_not_missed(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch, in_loop: bool
) -> None:
    """The thread already listens for another waiter, and hears of the end before we wait."""
    other, id = app.configure_task("unknown").batch_defer({}, {})
    heard: list[str | None] = []
    notify, look = ResultListener._notify, jobs.await_end

    def hear(listener: ResultListener, job_id: str | None) -> None:
        notify(listener, job_id)
        heard.append(job_id)

    def look_before_its_end(job_id: int) -> Operation[jobs.End | None]:
        end = yield from look(job_id)
        if job_id == id and not heard[1:]:
            query("SELECT cancel_job(%s)", id)
            wait_until(lambda: heard[1:])
        return end

    async def wait_in_loop() -> object:
        async with app.open_async():
            return await app.job_manager.result_async(id, LONG)

    monkeypatch.setattr(ResultListener, "_notify", hear)
    monkeypatch.setattr(jobs, "await_end", look_before_its_end)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(app.job_manager.result, other, LONG)
        await until(lambda: heard == [None])
        in_thread = partial(app.job_manager.result, id, LONG)
        second = threads.submit(partial(anyio.run, wait_in_loop) if in_loop else in_thread)
        await until(second.done)
        query("SELECT cancel_job(%s)", other)
        for each in (first, second):
            with pytest.raises(JobCancelled):
                await anyio.to_thread.run_sync(each.result)


async def test_a_waiter_outlives_the_loss_of_its_listener(
    app: App, query: Query, until: Until
) -> None:
    @app.task
    async def give() -> int:
        return 7

    id = give.defer()
    with ThreadPoolExecutor() as threads:
        future = threads.submit(app.job_manager.result, id, LONG)
        await until(lambda: query(LISTENERS) == [(1,)])
        query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'inturn results'"
        )
        await app.run_worker_async()
        await until(future.done)
        assert future.result() == 7


async def test_a_waiter_outlives_an_address_that_is_wrong_for_a_while(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def give() -> int:
        return 7

    connect, refused = app.connector.connect, threading.Event()

    def refuse_once(role: str, **options: Any) -> Session:
        if role == "results" and not refused.is_set():
            refused.set()
            raise ConfigurationError("the environment has no address")
        return connect(role, **options)

    monkeypatch.setattr(app.connector, "connect", refuse_once)
    id = give.defer()
    with ThreadPoolExecutor() as threads:
        future = threads.submit(app.job_manager.result, id, LONG)
        await until(refused.is_set)
        await until(lambda: query(LISTENERS) == [(1,)])
        await app.run_worker_async()
        await until(future.done)
        assert future.result() == 7


SILENCE = (
    "CREATE OR REPLACE FUNCTION notify_ended(p_id bigint) RETURNS boolean "
    "LANGUAGE sql AS 'SELECT true'"
)


@pytest.mark.fresh_database
async def test_a_lost_notification_is_made_good_by_looking_now_and_then(
    app: App, dsn: str, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "POLL", 0.05)
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute(SILENCE)

    @app.task
    async def give() -> int:
        return 7

    id = give.defer()
    with ThreadPoolExecutor() as threads:
        future = threads.submit(app.job_manager.result, id, LONG)
        await until(lambda: query("SELECT 1 FROM jobs WHERE has_waiters"))
        await app.run_worker_async()
        await until(future.done)
        assert future.result() == 7


async def test_no_notification_is_sent_without_a_waiter(app: App, dsn: str) -> None:
    @app.task
    async def give() -> int:
        return 7

    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute(results.LISTEN)
        awaited, other = give.defer(), give.defer()
        with pytest.raises(ResultTimeout):
            app.job_manager.result(awaited, timeout=0)
        await app.run_worker_async()
        listener.execute("SELECT pg_notify('inturn ended', 'last')")  # behind all others
        heard = [notify.payload for notify in listener.notifies(timeout=0.1)]
        assert heard == [str(awaited), "last"]
    assert other != awaited


async def test_a_wait_ends_when_its_time_is_up_and_the_job_goes_on(app: App, query: Query) -> None:
    @app.task
    async def give() -> int:
        return 7

    id = give.defer()
    with pytest.raises(
        ResultTimeout,
        match=f"Job {id} did not end within 0.05 s. It continues.*queue jobs explain {id}",
    ):
        app.job_manager.result(id, timeout=0.05)
    async with app.open_async():
        with pytest.raises(TimeoutError):
            await app.job_manager.result_async(id, timeout=0.05)
    await app.run_worker_async()
    assert app.job_manager.result(id) == 7


async def test_a_job_without_a_result_says_why(app: App, query: Query, until: Until) -> None:
    @app.task
    async def fail() -> None:
        raise ValueError("on purpose")

    @app.task
    async def fine() -> None: ...

    failed = fail.defer()
    cancelled = fine.configure(schedule_in={"hours": 1}).defer()
    await app.run_worker_async()
    with pytest.raises(
        JobFailed, match=f"(?s)^Job {failed} failed.*ValueError: on purpose"
    ) as caught:
        app.job_manager.result(failed)
    assert caught.value.job_id == failed
    with ThreadPoolExecutor() as threads:
        future = threads.submit(app.job_manager.result, cancelled, LONG)
        await until(lambda: query("SELECT 1 FROM jobs WHERE has_waiters"))
        app.job_manager.cancel_job_by_id(cancelled)
        with pytest.raises(
            JobCancelled, match=rf"^Job {cancelled} was cancelled, so it has no result\.$"
        ):
            await anyio.to_thread.run_sync(future.result, 30)
    with pytest.raises(
        JobNotFound, match="There is no job 12345: it was never deferred, is not committed yet"
    ):
        app.job_manager.result(12345)


async def test_a_waiter_waits_through_retries(app: App, query: Query, until: Until) -> None:
    @app.task(retry=RetryStrategy(max_attempts=1))
    async def fail_once() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("once")
        return "done"

    tries: list[int] = []
    id = fail_once.defer()
    with ThreadPoolExecutor() as threads:
        future = threads.submit(app.job_manager.result, id, LONG)
        await until(lambda: query("SELECT 1 FROM jobs WHERE has_waiters"))
        await app.run_worker_async()
        assert await anyio.to_thread.run_sync(future.result, 30) == "done"
    assert len(tries) == 2


def test_a_waiting_thread_leaves_nothing_behind(app: App) -> None:
    id = app.configure_task("nobody.knows.it").defer()
    with pytest.raises(ResultTimeout):
        app.job_manager.result(id, timeout=0.01)
    for thread in threading.enumerate():
        if thread.name == "inturn results":
            thread.join(30)
            assert not thread.is_alive()


def test_a_forked_process_listens_for_itself(app: App, query: Query) -> None:
    """The thread of its parent is not alive there, and nothing is polled."""
    parents, childs = app.configure_task("unknown").batch_defer({}, {})

    def wait_in_child() -> None:
        with pytest.raises(JobCancelled):
            app.job_manager.result(childs, LONG)
        wait_until(lambda: "inturn results" not in {each.name for each in threading.enumerate()})

    with ThreadPoolExecutor() as threads:
        first = threads.submit(app.job_manager.result, parents, LONG)
        wait_until(lambda: query(LISTENERS) == [(1,)])
        child = multiprocessing.get_context("fork").Process(target=wait_in_child)
        child.start()
        wait_until(lambda: query(LISTENERS) == [(2,)] or not child.is_alive())
        query("SELECT cancel_job(%s)", childs)
        child.join()
        query("SELECT cancel_job(%s)", parents)
        with pytest.raises(JobCancelled):
            first.result()
    assert child.exitcode == 0


def test_a_waiter_that_comes_while_the_thread_disconnects_starts_no_second_thread(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, connect = ResultListener(app.connector), app.connector.connect
    started: list[threading.Thread] = []
    listens, has_come = threading.Event(), threading.Event()

    class Noted(threading.Thread):
        def start(self) -> None:
            started.append(self)
            super().start()

    with ExitStack() as late:

        def connect_noted(*given: Any, **options: Any) -> Session:
            session = connect(*given, **options)
            close = session.close

            def come_and_close() -> None:
                if not has_come.is_set():
                    late.enter_context(listener.call_back(2, listens.set))
                    listener.listen()
                    has_come.set()
                close()

            monkeypatch.setattr(session, "close", come_and_close)
            return session

        monkeypatch.setattr(results, "Thread", Noted)
        monkeypatch.setattr(app.connector, "connect", connect_noted)
        with listener.call_back(1, listens.set):
            listener.listen()
            assert listens.wait(120)
        assert has_come.wait(120)
    for thread in started:
        thread.join(120)
    assert len(started) == 1
