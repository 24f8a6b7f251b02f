"""drain, perform and the clock: the real worker in the test's process."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App, JobContext, RetryStrategy
from inturn.errors import BadArgument, ConfigurationError, TaskNotFound
from inturn.model import BatchCounts, Progress, Status
from inturn.testing import Queue
from inturn.testing.drain import Endless

NEW_YEAR = datetime(2031, 1, 1, tzinfo=UTC)


class Broken(Exception):
    """The error that tasks of these tests raise."""


def statuses(queue: Queue) -> list[Status]:
    return [job.status for job in queue.jobs()]


# ---------------------------------------------------------------- drain


def test_drain_runs_waiting_jobs_in_the_order_of_their_lane(app: App, queue: Queue) -> None:
    written: list[str] = []
    write = app.task(name="write")(lambda letter: written.append(letter))
    for letter in "abc":
        write.configure(lock="alphabet").defer(letter=letter)
    runs = queue.drain()
    assert written == ["a", "b", "c"]
    assert [run.job.task_kwargs for run in runs] == [
        {"letter": "a"},
        {"letter": "b"},
        {"letter": "c"},
    ]
    assert statuses(queue) == [Status.SUCCEEDED] * 3


def test_drain_runs_the_callback_of_a_batch_after_its_jobs(app: App, queue: Queue) -> None:
    seen: list[object] = []

    @app.task(name="part", pass_context=True)
    def part(context: JobContext) -> None:
        seen.append(context.batch)

    with app.batch("import", callback=part) as batch:
        part.configure(batch=batch).batch_defer({}, {})
        queue.drain()
        assert seen == [None, None]
    queue.drain()
    assert seen[2:] == [BatchCounts(batch, 2, 2, 0, 0, 0)]


def test_drain_runs_jobs_that_jobs_defer(app: App, queue: Queue) -> None:
    seen: list[int] = []

    @app.task(name="down")
    def down(number: int) -> None:
        seen.append(number)
        if number:
            down.defer(number=number - 1)

    down.defer(number=3)
    queue.drain()
    assert seen == [3, 2, 1, 0]


@pytest.mark.anyio
async def test_drain_async_runs_async_tasks_in_the_loop_of_the_test(app: App, queue: Queue) -> None:
    loops: list[object] = []

    @app.task(name="look")
    async def look(again: bool) -> None:
        loops.append(asyncio.get_running_loop())
        if again:
            await look.defer_async(again=False)

    await look.defer_async(again=True)
    await queue.drain_async()
    assert loops == [asyncio.get_running_loop()] * 2


@pytest.mark.anyio
async def test_drain_in_a_running_loop_names_drain_async(queue: Queue) -> None:
    with pytest.raises(ConfigurationError, match=r"await queue\.drain_async"):
        queue.drain()


def test_the_error_of_a_job_that_failed_for_good_is_raised_in_the_test(
    app: App, queue: Queue
) -> None:
    @app.task(name="fail")
    def fail(number: int) -> None:
        raise Broken(number)

    fail.batch_defer({"number": 1}, {"number": 2})
    with pytest.raises(Broken) as caught:
        queue.drain()
    assert caught.value.__notes__ == [
        "raised by job 1 of task fail, attempt 1",
        "1 more failed: job 2 of task fail",
    ]
    assert [frame.name for frame in caught.traceback][-1] == "fail"
    assert not any("anyio" in str(frame.path) for frame in caught.traceback)
    assert statuses(queue) == [Status.FAILED] * 2


def test_errors_are_values_on_request(app: App, queue: Queue) -> None:
    @app.task(name="fail")
    def fail() -> None:
        raise Broken

    fail.defer()
    [run] = queue.drain(raises=False)
    assert isinstance(run.error, Broken)


@pytest.mark.parametrize("sync", [True, False])
def test_a_job_that_failed_though_its_task_raised_nothing_is_no_success(
    app: App, queue: Queue, sync: bool
) -> None:
    """It took too long. A sync task goes on to its end, and an async task is cancelled."""

    @app.task(name="slow", timeout=0.05)
    def slow() -> None:
        time.sleep(0.3)

    @app.task(name="slow_async", timeout=0.05)
    async def slow_async() -> None:
        await anyio.sleep(30)

    task = slow if sync else slow_async
    task.defer()
    with pytest.raises(
        AssertionError, match=r"^job 1 of task slow\w* failed:\n(.|\n)*longer than its timeout"
    ):
        queue.drain()
    with pytest.raises(
        AssertionError, match=r"^job 2 of task slow\w* failed:\n(.|\n)*longer than its timeout"
    ):
        queue.perform(task)


def test_an_attempt_that_will_be_repeated_raises_nothing(app: App, queue: Queue) -> None:
    attempts: list[int] = []

    @app.task(name="third", retry=RetryStrategy(max_attempts=5, wait=0), pass_context=True)
    def third(context: JobContext) -> None:
        attempts.append(context.job.attempts)
        if len(attempts) < 3:
            raise Broken

    third.defer()
    queue.drain()
    assert attempts == [0, 1, 2]
    assert statuses(queue) == [Status.SUCCEEDED]


def test_a_task_finds_the_app_and_itself_in_its_context(app: App, queue: Queue) -> None:
    found: list[object] = []
    look = app.task(name="look", pass_context=True)(
        lambda context: found.extend([context.app, context.task])
    )
    look.defer()
    queue.drain()
    assert found == [app, look]


@pytest.mark.fresh_database
def test_a_task_ends_its_job_in_a_transaction_of_its_own(app: App, queue: Queue, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE effects (name text)")

    @app.task(name="plain", pass_context=True)
    def plain(context: JobContext) -> None:
        with context.transaction() as connection:
            connection.execute("INSERT INTO effects VALUES ('plain')")

    @app.task(name="coroutine", pass_context=True)
    async def coroutine(context: JobContext) -> None:
        async with context.transaction() as connection:
            await connection.execute("INSERT INTO effects VALUES ('coroutine')")

    plain.defer()
    coroutine.defer()
    queue.drain()
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT name FROM effects").fetchall() == [
            ("plain",),
            ("coroutine",),
        ]
    assert statuses(queue) == [Status.SUCCEEDED] * 2


@pytest.mark.fresh_database
@pytest.mark.parametrize("run", ["drain", "perform"])
def test_the_progress_of_a_job_is_seen_in_a_test(app: App, queue: Queue, run: str) -> None:
    @app.task(pass_context=True)
    def work(context: JobContext) -> None:
        for done in range(1, 4):
            context.progress(done, 3, f"step {done}")

    queue.freeze(NEW_YEAR)
    if run == "drain":
        work.defer()
        queue.drain()
    else:
        queue.perform(work)
    [job] = queue.jobs()
    assert job.progress == Progress(3, 3, "step 3", NEW_YEAR)


def test_a_job_of_an_unknown_task_is_not_passed_over(app: App, queue: Queue) -> None:
    app.configure_task("elsewhere").defer(x=1)
    with pytest.raises(TaskNotFound, match="'elsewhere'"):
        queue.drain()


def test_an_endless_chain_is_found(app: App, queue: Queue) -> None:
    @app.task(name="again")
    def again() -> None:
        again.defer()

    again.defer()
    with pytest.raises(Endless, match=r"more than 20 runs.*task again.*drain\(at_most=…\)"):
        queue.drain(at_most=20)


def test_as_many_runs_as_are_allowed_are_no_endless_chain(app: App, queue: Queue) -> None:
    task = app.task(name="once")(lambda: None)
    task.batch_defer({}, {})
    assert len(queue.drain(at_most=2)) == 2
    task.defer()
    with pytest.raises(Endless, match="more than 0 runs"):
        queue.drain(at_most=0)


def test_drain_can_serve_some_queues_only(app: App, queue: Queue) -> None:
    note = app.task(name="note", queue="mail")(lambda: None)
    note.defer()
    note.configure(queue="reports").defer()
    queue.drain(queues=["mail"])
    assert statuses(queue) == [Status.SUCCEEDED, Status.TODO]


# ---------------------------------------------------------------- until, advance


@pytest.mark.parametrize("count", [1, 70])  # 70, because by then a worker claims ahead
def test_drain_stops_at_its_condition(app: App, queue: Queue, count: int) -> None:
    seen: list[int] = []
    note = app.task(name="note")(lambda number: seen.append(number))
    note.batch_defer(*({"number": number} for number in range(100)))
    queue.drain(until=lambda: len(seen) == count)
    assert seen == list(range(count))
    assert statuses(queue).count(Status.TODO) == 100 - count
    assert queue.drain(until=lambda: True) == []


def test_a_condition_that_never_comes_true_fails_and_names_what_waits(
    app: App, queue: Queue
) -> None:
    note = app.task(name="note")(lambda: None)
    note.defer()
    note.configure(schedule_in={"hours": 1}, lock="later").defer()
    with pytest.raises(
        AssertionError, match=r'false after 1 runs(.|\n)*job 2 note\(\), lock "later", scheduled'
    ):
        queue.drain(until=lambda: False)


def test_a_condition_that_raises_is_the_tests_error_and_not_the_jobs(
    app: App, queue: Queue
) -> None:
    asked: list[int] = []

    def until() -> bool:
        asked.append(1)
        if len(asked) > 1:
            raise Broken("in the condition")
        return False

    app.task(name="note")(lambda: None).defer()
    with pytest.raises(Broken, match="in the condition"):
        queue.drain(until=until)
    assert statuses(queue) == [Status.SUCCEEDED]


@pytest.mark.fresh_database
def test_with_advance_retries_and_scheduled_jobs_run_in_no_time(app: App, queue: Queue) -> None:
    times: list[tuple[str, timedelta]] = []
    queue.freeze(NEW_YEAR)

    @app.task(name="flaky", retry=RetryStrategy(max_attempts=2, wait=600))
    def flaky() -> None:
        times.append(("flaky", queue.now() - NEW_YEAR))
        raise Broken

    note = app.task(name="note")(lambda name: times.append((name, queue.now() - NEW_YEAR)))
    flaky.defer()
    note.configure(schedule_in={"minutes": 15}).defer(name="soon")
    note.configure(schedule_in={"hours": 2}).defer(name="late")
    queue.drain(advance=timedelta(hours=1), raises=False)
    assert times == [
        ("flaky", timedelta(0)),
        ("flaky", timedelta(minutes=10)),
        ("soon", timedelta(minutes=15)),
        ("flaky", timedelta(minutes=20)),
    ]
    assert queue.now() == NEW_YEAR + timedelta(hours=1)
    assert statuses(queue) == [Status.FAILED, Status.SUCCEEDED, Status.SCHEDULED]


# ---------------------------------------------------------------- perform


def test_no_schedule_fires_in_a_drain_but_its_task_can_be_performed(app: App, queue: Queue) -> None:
    @app.periodic(cron="* * * * *")
    @app.task
    def report(timestamp: int) -> int:
        return timestamp

    assert queue.drain(advance=timedelta(minutes=5)) == []
    assert queue.perform(report, timestamp=0) == 0


def test_with_advance_a_job_expires_whose_lane_is_paused(app: App, queue: Queue) -> None:
    @app.task
    def remind(order: int) -> None: ...

    late = remind.configure(lock="a", expires_in={"hours": 1}).defer(1)
    app.lanes.pause("a")
    assert queue.drain(advance=timedelta(hours=2)) == []
    assert [(job.id, job.status) for job in queue.jobs()] == [(late, "cancelled")]


def test_perform_runs_only_that_job_and_returns_its_value(app: App, queue: Queue) -> None:
    double = app.task(name="double")(lambda number: [number, number])
    double.defer(number=7)
    assert queue.perform(double, number=(1, 2)) == [[1, 2], [1, 2]]  # a tuple goes through JSON
    assert statuses(queue) == [Status.TODO, Status.SUCCEEDED]


def test_perform_runs_async_tasks_for_sync_tests(app: App, queue: Queue) -> None:
    @app.task(name="half")
    async def half(number: int) -> float:
        return number / 2

    value: float = queue.perform(half, 3)
    assert value == 1.5


@pytest.mark.anyio
async def test_perform_async(app: App, queue: Queue) -> None:
    @app.task(name="half")
    async def half(number: int) -> float:
        return number / 2

    assert await queue.perform_async(half, number=3) == 1.5
    with pytest.raises(ConfigurationError, match=r"await queue\.perform_async"):
        queue.perform(half, number=3)


def test_perform_raises_what_the_task_raises(app: App, queue: Queue) -> None:
    @app.task(name="fail")
    def fail() -> None:
        raise Broken("so")

    with pytest.raises(Broken, match="so") as caught:
        queue.perform(fail)
    assert caught.value.__notes__ == ["raised by job 1 of task fail, attempt 1"]


def test_perform_refuses_what_defer_refuses(app: App, queue: Queue) -> None:
    note = app.task(name="note")(lambda text: None)
    with pytest.raises(BadArgument, match="bytes"):
        queue.perform(note, text=b"x")
    with pytest.raises(BadArgument, match="missing"):
        queue.perform(note)  # type: ignore[call-overload]


def test_perform_keeps_the_order_of_a_lane_and_names_the_job_in_the_way(
    app: App, queue: Queue
) -> None:
    note = app.task(name="note", lock="lane")(lambda number: number)
    note.defer(number=1)
    with pytest.raises(
        AssertionError, match=r"Job 2 of task note did not run(.|\n)*job 1"
    ) as caught:
        queue.perform(note, number=2)
    assert "serves" not in str(caught.value)
    queue.drain()
    assert queue.perform(note.configure(schedule_in={"days": 1}), number=3) == 3


# ---------------------------------------------------------------- the clock


@pytest.fixture
def other(dsn: str) -> Iterator[Any]:
    """A connection with cached plans, opened before the clock changed."""
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as connection:

        def now() -> Any:
            return connection.execute("SELECT inturn.clock()").fetchone()

        for _ in range(10):
            now()
        yield now


def test_a_frozen_clock_holds_for_every_connection(queue: Queue, other: Any) -> None:
    assert abs(queue.now() - datetime.now(UTC)) < timedelta(minutes=1)
    assert queue.freeze(NEW_YEAR) == NEW_YEAR
    assert other() == (NEW_YEAR,)
    assert queue.advance(minutes=5) == NEW_YEAR + timedelta(minutes=5)
    assert other() == (NEW_YEAR + timedelta(minutes=5),)
    queue.thaw()
    assert abs(other()[0] - datetime.now(UTC)) < timedelta(minutes=1)


def test_advance_alone_freezes(queue: Queue) -> None:
    then = queue.advance(timedelta(days=1), hours=1)
    assert queue.now() == then
    assert timedelta(hours=24) < then - datetime.now(UTC) < timedelta(hours=26)


@pytest.mark.fresh_database
def test_times_of_jobs_are_those_of_the_clock(app: App, queue: Queue) -> None:
    queue.freeze(NEW_YEAR)
    app.task(name="note")(lambda: None).configure(schedule_in={"minutes": 5}).defer()
    queue.assert_enqueued("note", scheduled_at=NEW_YEAR + timedelta(minutes=5))
    assert queue.drain() == []
    queue.advance(minutes=5)
    queue.drain()
    [job] = queue.jobs()
    assert (job.started_at, job.finished_at) == (queue.now(), queue.now())


def test_a_time_without_a_zone_is_refused(queue: Queue) -> None:
    with pytest.raises(BadArgument, match="zone"):
        queue.freeze(datetime(2031, 1, 1))


def test_a_live_worker_does_not_die_of_a_moved_clock(queue: Queue, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        connection.execute("SELECT register_worker('w', 'host', 7, NULL, 1)")
        queue.freeze(NEW_YEAR)
        queue.advance(days=1)
        assert connection.execute("SELECT state FROM worker_status").fetchall() == [("live",)]
        queue.thaw()
        assert connection.execute("SELECT state FROM worker_status").fetchall() == [("live",)]


def test_the_clock_goes_on_and_the_app_is_given_back_at_the_end(app: App, dsn: str) -> None:
    before = app.connector
    with Queue(app, dsn) as queue:
        queue.freeze(NEW_YEAR)
        assert app.lanes.pause("lane")
    assert app.connector is before
    with psycopg.connect(dsn) as connection:
        [(now,)] = connection.execute("SELECT inturn.clock()").fetchall()
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


def test_code_under_test_may_open_the_app(app: App, queue: Queue) -> None:
    note = app.task(name="note")(lambda: None)
    before = set(threading.enumerate())
    with app.open():
        note.defer()
        assert not [
            thread
            for thread in set(threading.enumerate()) - before
            if thread.name.startswith("pool-")
        ]
    note.defer()
    app.run_worker(wait=False, install_signal_handlers=False)
    assert statuses(queue) == [Status.SUCCEEDED] * 2
