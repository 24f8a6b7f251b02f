"""A worker runs jobs on a real server. It finds none of them by polling."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from inturn import App, BaseRetryStrategy, Job, JobContext, RetryDecision, RetryStrategy
from inturn.errors import BadArgument, JobSkipped
from inturn.worker import running_jobs
from inturn.worker.claiming import claiming
from inturn.worker.options import options
from inturn.worker.worker import Worker
from tests.conftest import FAST_TAKEOVER, Query, Until
from tests.waiting import wait_until

pytestmark = pytest.mark.anyio


async def test_a_lane_runs_in_order_and_one_at_a_time_however_many_slots_are_free(app: App) -> None:
    seen: list[int] = []
    running = most = 0

    @app.task(lock="lane")
    async def step(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        seen.append(number)
        running -= 1

    step.batch_defer(*({"number": n} for n in range(500)))
    for number in range(500, 1000):
        step.defer(number)
    with anyio.fail_after(120):
        await app.run_worker_async(concurrency=10)
    assert seen == list(range(1000))
    assert most == 1


async def test_different_lanes_and_free_jobs_run_side_by_side(app: App) -> None:
    together = anyio.Event()
    inside: set[str] = set()

    @app.task
    async def meet(name: str) -> None:
        inside.add(name)
        if len(inside) == 3:
            together.set()
        await together.wait()  # ends only if all three are inside at once

    meet.configure(lock="a").defer("a")
    meet.configure(lock="b").defer("b")
    meet.defer("free")
    with anyio.fail_after(120):
        await app.run_worker_async(concurrency=3)
    assert inside == {"a", "b", "free"}


async def test_sync_tasks_run_in_threads_side_by_side(app: App) -> None:
    barrier = threading.Barrier(3, timeout=30)

    @app.task
    def meet() -> None:
        barrier.wait()

    meet.batch_defer({}, {}, {})
    with anyio.fail_after(120):
        await app.run_worker_async(concurrency=3)
    assert not barrier.broken


async def test_a_higher_priority_starts_first_inside_and_across_lanes(app: App) -> None:
    seen: list[str] = []

    @app.task
    async def note(name: str) -> None:
        seen.append(name)

    for name, lock, priority in [
        ("low", "l", 0),
        ("free", None, 1),
        ("high", "l", 2),
        ("other", "m", 3),
        ("last", "l", -1),
    ]:
        note.configure(lock=lock, priority=priority).defer(name)
    await app.run_worker_async(concurrency=1)
    assert seen == ["other", "high", "free", "low", "last"]


async def test_one_deep_lane_keeps_its_worker_from_older_jobs_for_its_slice_only(app: App) -> None:
    seen: list[str] = []

    @app.task
    async def note(name: str) -> None:
        seen.append(name)
        await anyio.sleep(0.12)  # longer than the slice

    note.configure(lock="deep").defer("deep 1")
    note.defer("free")
    note.configure(lock="deep").batch_defer({"name": "deep 2"}, {"name": "deep 3"})
    await app.run_worker_async(concurrency=1)
    assert seen == ["deep 1", "free", "deep 2", "deep 3"]


async def test_a_lane_over_two_queues_passes_from_worker_to_worker(app: App) -> None:
    seen: list[int] = []

    @app.task(lock="lane")
    async def step(number: int) -> None:
        seen.append(number)
        if len(seen) == 20:
            scope.cancel()

    for number in range(20):
        step.configure(queue="even" if number % 2 == 0 else "odd").defer(number)
    with anyio.fail_after(120), anyio.CancelScope() as scope:
        async with app.open_async(), anyio.create_task_group() as workers:
            for queue in ("even", "odd"):
                workers.start_soon(partial(app.run_worker_async, queues=[queue], wait=True))
    assert seen == list(range(20))


async def test_a_sleeping_worker_is_woken_by_a_new_job(app: App, until: Until) -> None:
    done: list[int] = []

    @app.task(queue="bells")
    async def ring(number: int) -> None:
        done.append(number)

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(wait=True, queues=["bells"]))
        for number in range(5):
            ring.defer(number)
            await until(partial(done.__contains__, number))
        group.cancel_scope.cancel()
    assert done == list(range(5))


async def test_a_scheduled_job_starts_when_it_is_due_and_holds_up_nobody(
    app: App, until: Until
) -> None:
    seen: list[str] = []

    @app.task(lock="lane")
    async def note(name: str) -> None:
        seen.append(name)

    async with app.open_async(), anyio.create_task_group() as group:
        note.configure(schedule_in=timedelta(days=400), priority=2).defer("next year")
        note.configure(schedule_in={"seconds": 2}).defer("soon")
        note.configure(priority=1).defer("now")  # first even if the worker starts after 2 seconds
        group.start_soon(lambda: app.run_worker_async(wait=True))
        await until(lambda: len(seen) == 2)
        group.cancel_scope.cancel()
    assert seen == ["now", "soon"]


async def test_a_failed_job_is_tried_again_and_its_lane_waits_for_it(
    app: App, query: Query, until: Until
) -> None:
    seen: list[tuple[str, int]] = []

    @app.task(lock="lane", retry=RetryStrategy(max_attempts=2, wait=0.05), pass_context=True)
    async def shaky(context: JobContext, name: str) -> None:
        seen.append((name, context.job.attempts))
        if name == "first":
            raise ValueError("no luck")

    shaky.batch_defer({"name": "first"}, {"name": "second"})
    shaky.configure(priority=9).defer("urgent")  # came later: it was not there when `first` started
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(wait=True, concurrency=2))
        await until(
            lambda: len(seen) == 5 and query("SELECT 1 FROM finished_jobs HAVING count(*) = 3")
        )
        group.cancel_scope.cancel()
    assert seen == [("urgent", 0), ("first", 0), ("first", 1), ("first", 2), ("second", 0)]
    ((status, attempts, errors),) = query(
        "SELECT status::text, attempts, errors FROM finished_jobs WHERE args->>'name' = 'first'"
    )
    assert (status, attempts, len(errors)) == ("failed", 3, 3)
    assert errors[2]["error"].splitlines()[-1] == "ValueError: no luck"
    assert "inturn/worker" not in errors[2]["error"]


async def test_only_the_last_ten_errors_are_kept(app: App, query: Query) -> None:
    @app.task(retry=RetryStrategy(max_attempts=14))
    async def hopeless() -> None:
        raise ValueError("again")

    hopeless.defer()
    await app.run_worker_async()
    ((attempts, errors),) = query("SELECT attempts, errors FROM finished_jobs")
    assert attempts == 15
    assert [error["attempt"] for error in errors] == list(range(6, 16))


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


class Hasty(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Broken(BaseRetryStrategy):
    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        raise LookupError("the strategy is wrong")


POISON: dict[str, BaseException] = {
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "CancelledError": asyncio.CancelledError(),
    "StopIteration": StopIteration(),
    "Unprintable": Unprintable(),
    "Hasty": Hasty(),
    "ValueError: NUL": ValueError("NUL \0 and half a pair \ud800 " + "x" * 50_000),
}


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize(("name", "error"), POISON.items(), ids=list(POISON))
async def test_the_worker_goes_on_after_any_exception_of_a_task(
    app: App, query: Query, name: str, error: BaseException, sync: bool
) -> None:
    def fail() -> None:
        raise error

    async def fail_async() -> None:
        raise error

    task: Any = app.task(name="fail", lock="lane")(fail if sync else fail_async)
    task.defer()
    app.task(name="after", lock="lane")(lambda: None).defer()
    with anyio.fail_after(120):
        await app.run_worker_async()
    rows = query("SELECT task, status::text, errors FROM finished_jobs ORDER BY id")
    assert [(task, status) for task, status, _ in rows] == [
        ("fail", "failed"),
        ("after", "succeeded"),
    ]
    text = rows[0][2][0]["error"]
    assert len(text) <= 8192
    assert name.partition(":")[0] in text or text.startswith("x")


async def test_a_job_is_skipped_whatever_the_reason_says(app: App, query: Query) -> None:
    @app.task
    async def skip() -> None:
        raise JobSkipped("NUL \0 and half a pair \ud800")

    skip.defer()
    await app.run_worker_async()
    ((status, errors),) = query("SELECT status::text, errors FROM finished_jobs")
    assert (status, errors[0]["error"]) == ("cancelled", r"NUL \0 and half a pair \ud800")


async def test_a_broken_retry_strategy_is_a_failure_of_its_own(app: App, query: Query) -> None:
    @app.task(retry=Broken())
    async def fail() -> None:
        raise ValueError("first")

    fail.defer()
    await app.run_worker_async()
    ((errors,),) = query("SELECT errors FROM finished_jobs WHERE status = 'failed'")
    assert "ValueError: first" in errors[0]["error"]
    assert "LookupError: the strategy is wrong" in errors[0]["error"]


async def test_a_task_that_nobody_here_knows_is_put_back_and_not_lost(
    app: App, query: Query
) -> None:
    app.configure_task("elsewhere").defer(x=1)
    await app.run_worker_async()
    ((status, later, errors),) = query(
        "SELECT status::text, scheduled_at > now(), errors FROM jobs"
    )
    assert (status, later) == ("scheduled", True)
    assert "No task is named 'elsewhere' here" in errors[0]["error"]


LISTENS = """
SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle'
AND application_name = 'inturn listener' AND query LIKE 'LISTEN%'
"""


@pytest.mark.landing
async def test_a_worker_that_lacks_a_task_lets_one_that_knows_it_go_first(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_jobs, "UNKNOWN_TASK_PAUSE", timedelta(seconds=1))
    monkeypatch.setattr(claiming, "YIELD", timedelta(hours=1))
    new = App(connector=app.connector)
    elsewhere = new.task(name="elsewhere")(lambda: None)
    work = partial(App.run_worker_async, fetch_job_polling_interval=3600)
    async with anyio.create_task_group() as group:
        group.start_soon(partial(work, app, wait=True))
        await until(lambda: query(LISTENS))  # it looks for jobs when it begins to listen
        for _ in range(4):
            job_id = elsewhere.defer()
            await until(lambda: query("SELECT FROM jobs WHERE status = 'scheduled'"))
            async with anyio.create_task_group() as others:
                others.start_soon(partial(work, new, wait=True))
                await until(lambda: not query("SELECT FROM jobs"))
                others.cancel_scope.cancel()
            ended = "SELECT attempts, status::text FROM finished_jobs WHERE id = %s"
            assert query(ended, job_id) == [(2, "succeeded")]
        group.cancel_scope.cancel()


async def test_a_one_shot_worker_also_runs_what_its_jobs_defer(app: App) -> None:
    seen: list[int] = []

    @app.task(name="down")
    def down(number: int) -> None:
        seen.append(number)
        if number:
            down.defer(number=number - 1)

    down.defer(number=3)
    await app.run_worker_async(wait=False, listen_notify=False)
    assert seen == [3, 2, 1, 0]


async def test_whatever_a_sync_task_returns_to_be_awaited_is_awaited(
    app: App, query: Query
) -> None:
    class Later:
        def __await__(self) -> Iterator[None]:
            yield from asyncio.sleep(0).__await__()
            raise ValueError("it was awaited")

    @app.task
    def begin() -> Any:
        return Later()

    begin.defer()
    await app.run_worker_async()
    [(error,)] = query("SELECT errors -> 0 ->> 'error' FROM finished_jobs")
    assert "it was awaited" in error


async def test_a_context_tells_about_the_run_and_its_fence_rises(app: App) -> None:
    contexts: list[JobContext] = []

    @app.task(pass_context=True, lock="lane", queue="q")
    async def look(context: JobContext, letter: str = "z") -> None:
        contexts.append(context)

    first, second = look.batch_defer({"letter": "a"}, {})
    await app.run_worker_async(name="me", queues=["q", "q"], additional_context={"colour": "red"})
    one, two = contexts
    assert (one.job.id, two.job.id) == (first, second)
    assert (one.job.task_kwargs, two.job.task_kwargs) == ({"letter": "a"}, {})
    assert two.fence > one.fence
    assert one.worker_name == "me"
    assert one.worker_queues == ("q",)
    assert one.additional_context == {"colour": "red"}
    assert one.task is look


async def test_a_stopping_worker_ends_running_jobs_and_leaves_the_rest(
    app: App, query: Query
) -> None:
    @app.task(pass_context=True, lock="lane")
    async def tell(context: JobContext) -> None:
        signals.set()
        await anyio.sleep(0.1)

    signals = anyio.Event()
    tell.batch_defer({}, {})

    from inturn.worker.options import options
    from inturn.worker.worker import Worker

    async with app.open_async(), anyio.create_task_group() as group:
        worker = Worker(app, app.connector, options({"install_signal_handlers": False}))
        group.start_soon(worker.run)
        await signals.wait()
        worker.stop()
    assert query("SELECT status::text FROM all_jobs ORDER BY id") == [("succeeded",), ("todo",)]
    assert query("SELECT * FROM lanes") == query("SELECT * FROM workers") == []


async def test_a_worker_that_ends_its_last_job_counts_as_serving_no_queue(
    app: App, query: Query, until: Until
) -> None:
    @app.task
    def wait() -> None:
        release.wait(30)

    def states() -> list[tuple[Any, ...]]:
        return query("SELECT state, queues, doing FROM worker_status")

    release = threading.Event()
    wait.batch_defer({}, {})
    given = {"install_signal_handlers": False, "concurrency": 1}
    async with app.open_async(), anyio.create_task_group() as group:
        worker = Worker(app, app.connector, options(given))
        group.start_soon(worker.run)
        await until(lambda: states() == [("live", None, 1)])
        worker.stop()
        await until(lambda: states() == [("stopping", [], 1)])
        assert query("SELECT queue, workers FROM queue_status") == [("default", 0)]
        [(reason,)] = query("SELECT reason FROM explain_workers('default', 'wait', false)")
        assert reason == "queue unserved"
        query("DELETE FROM workers RETURNING 1")  # it was taken for dead
        worker._recovery.note_unheard()  # and learns it
        await until(states)
        assert states() == [("stopping", [], 0)]
        release.set()
    assert query("SELECT * FROM workers") == []


async def test_a_job_that_outlives_the_grace_goes_back_to_the_head_of_its_lane(
    app: App, query: Query
) -> None:
    from inturn.worker.options import options
    from inturn.worker.worker import Worker

    started = anyio.Event()
    seen: list[str] = []

    @app.task(pass_context=True, lock="lane")
    async def stay(context: JobContext, name: str) -> None:
        seen.append(name)
        if context.job.attempts == 0 and name == "first":
            started.set()
            await anyio.sleep_forever()

    stay.batch_defer({"name": "first"}, {"name": "second"})
    async with app.open_async(), anyio.create_task_group() as group:
        given = {"install_signal_handlers": False, "shutdown_graceful_timeout": 0.05}
        worker = Worker(app, app.connector, options(given))
        group.start_soon(worker.run)
        await started.wait()
        worker.stop()
    assert query("SELECT status::text FROM jobs ORDER BY id") == [("todo",), ("blocked",)]
    stay.configure(priority=5).defer("urgent")
    with anyio.fail_after(120):  # an attempt that was not counted would never end
        await app.run_worker_async()
    assert seen == ["first", "first", "urgent", "second"]


async def test_a_cancelled_worker_gives_back_what_outlives_the_grace(
    app: App, query: Query
) -> None:
    started = anyio.Event()

    @app.task
    async def stay() -> None:
        started.set()
        await anyio.sleep_forever()

    stay.defer()
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, shutdown_graceful_timeout=0.05))
        await started.wait()
        group.cancel_scope.cancel()
    assert query("SELECT status::text FROM jobs") == [("todo",)]
    assert query("SELECT * FROM workers") == []


async def test_a_worker_that_learns_of_its_death_a_second_time_does_not_register_again(
    app: App, query: Query, until: Until
) -> None:
    """The heartbeat's thread saw it too, but tells the loop when that has registered again."""
    done: list[int] = []

    @app.task
    async def work(number: int) -> None:
        done.append(number)

    async with app.open_async(), anyio.create_task_group() as group:
        worker = Worker(app, app.connector, options({"install_signal_handlers": False}))
        group.start_soon(worker.run)
        await work.defer_async(number=0)
        await until(lambda: 0 in done)
        dead = worker._state.registration.worker_id
        query("DELETE FROM workers RETURNING 1")
        await work.defer_async(number=1)
        await until(lambda: 1 in done)
        alive = worker._state.registration.worker_id
        worker._recovery.note_lost(dead)
        await work.defer_async(number=2)
        await until(lambda: 2 in done)
        assert query("SELECT id FROM workers") == [(alive,)]
        assert alive != dead
        group.cancel_scope.cancel()


async def test_a_worker_that_was_taken_for_dead_registers_again_and_its_result_is_refused(
    app: App, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    releases = threading.Event(), threading.Event()
    runs: list[int] = []

    @app.task(lock="lane", pass_context=True)
    def stubborn(context: JobContext) -> None:
        runs.append(context.fence)
        releases[context.job.attempts].wait(30)

    stubborn.defer()
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(
            lambda: app.run_worker_async(
                wait=True, concurrency=2, update_heartbeat_interval=0.1, stalled_worker_timeout=0.5
            )
        )
        await until(lambda: runs)
        query("DELETE FROM workers RETURNING 1")  # what a rescuer does to a worker that seems dead
        await until(lambda: len(runs) == 2)  # by another claim, of the same process under a new id
        releases[0].set()
        await until(lambda: "job.lost" in caplog.text)
        assert query("SELECT status::text, fence FROM jobs") == [("doing", runs[1])]
        releases[1].set()
        await until(lambda: query("SELECT 1 FROM finished_jobs"))
        group.cancel_scope.cancel()
    assert runs[1] > runs[0]
    assert query("SELECT status::text, fence FROM finished_jobs") == [("succeeded", runs[1])]


async def test_a_job_that_was_asked_to_abort_ends_with_its_worker(
    app: App, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    runs: list[int] = []

    @app.task
    def hang() -> None:
        runs.append(1)
        release.wait(120)

    job_id = hang.defer()
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True, **FAST_TAKEOVER))
        await until(lambda: runs)
        app.job_manager.cancel_job_by_id(job_id, abort=True)
        query("DELETE FROM workers RETURNING 1")  # as if somebody had killed the process
        await until(lambda: "it had been asked to abort" in caplog.text)
        release.set()
        group.cancel_scope.cancel()
    assert query("SELECT status::text FROM finished_jobs") == [("aborted",)]
    assert runs == [1]


@pytest.mark.landing
async def test_a_worker_with_a_longer_interval_than_the_patience_of_another_is_not_taken_for_dead(
    app: App, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    def beat() -> Any:
        return query("SELECT id, heartbeat_at FROM workers WHERE name = 'rare'")[0]

    def has_name(name: str) -> bool:
        return bool(query("SELECT 1 FROM workers WHERE name = %s", name))

    rare: dict[str, Any] = {"update_heartbeat_interval": 3.0, "stalled_worker_timeout": 9.0}
    hasty: dict[str, Any] = {"update_heartbeat_interval": 0.1, "stalled_worker_timeout": 0.4}
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(name="rare", wait=True, **rare))
        group.start_soon(lambda: app.run_worker_async(name="hasty", wait=True, **hasty))
        await until(lambda: has_name("rare") and has_name("hasty"))
        for _ in range(2):
            seen = beat()
            await until(lambda: beat() != seen)  # noqa: B023 (it is awaited at once)
        group.cancel_scope.cancel()
    assert "worker.lost" not in caplog.text


async def test_a_task_that_blocks_the_event_loop_does_not_make_its_worker_look_dead(
    app: App, query: Query
) -> None:
    beats: list[Any] = []

    def beat() -> Any:
        return query("SELECT heartbeat_at FROM workers")[0][0]

    @app.task
    async def block() -> None:
        for _ in range(4):
            last = beat()
            time.sleep(0.25)  # noqa: ASYNC251 (that is the point)
            wait_until(lambda: beat() > last)  # noqa: B023
            beats.append(last)

    block.defer()
    await app.run_worker_async(update_heartbeat_interval=0.1, stalled_worker_timeout=0.5)
    assert len(beats) == 4


IDLE = """
datname = current_database() AND state = 'idle'
AND clock_timestamp() - state_change > interval '0.2 s'
"""
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database()
AND application_name IN ('inturn worker', 'inturn listener', 'inturn maintenance')
"""


async def test_a_worker_survives_the_loss_of_all_its_connections(app: App, query: Query) -> None:
    seen: list[int] = []

    @app.task(lock="lane")
    async def step(number: int) -> None:
        if number % 10 == 0 and number not in seen:
            query(CUT)
        seen.append(number)

    step.batch_defer(*({"number": n} for n in range(40)))
    with anyio.fail_after(120):
        await app.run_worker_async(concurrency=4)
    assert list(dict.fromkeys(seen)) == list(range(40))
    assert query("SELECT count(*) FROM finished_jobs WHERE status = 'succeeded'") == [(40,)]
    assert query("SELECT * FROM lanes") == []


async def test_a_claim_whose_reply_was_lost_is_undone(app: App, query: Query, until: Until) -> None:
    seen: list[str] = []

    @app.task
    async def note(name: str) -> None:
        seen.append(name)

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(wait=True, queues=["default"]))
        await until(lambda: query("SELECT id FROM workers"))
        note.configure(queue="aside").defer("lost")
        # As after a claim whose reply was lost: the job is `doing`, but its worker does not know.
        query("SELECT id FROM claim((SELECT id FROM workers), ARRAY['aside'], 1)")
        query(CUT)
        note.defer("next")
        await until(lambda: query("SELECT status::text FROM jobs") == [("todo",)])
        group.cancel_scope.cancel()
    assert seen == ["next"]
    assert query("SELECT queue, attempts FROM jobs") == [("aside", 0)]  # for another claim


async def test_an_end_whose_reply_was_lost_is_not_reported_as_lost(
    app: App, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(pass_context=True)
    async def end(context: JobContext) -> None:
        await until(
            lambda: query(
                "SELECT FROM pg_stat_activity WHERE application_name = 'inturn worker' AND " + IDLE
            )
        )
        # The server's side of a finish whose reply never came.
        query(
            "SELECT finished_id FROM jobs, "
            "finish(worker_id, NULL, 0, ARRAY[id], ARRAY[claim_id], '{succeeded}', '{NULL}')"
            " WHERE id = %s",
            context.job.id,
        )
        query(CUT)

    end.defer()
    with anyio.fail_after(120):
        await app.run_worker_async(concurrency=1)  # it claims nothing meanwhile
    assert query("SELECT status FROM finished_jobs") == [("succeeded",)]
    assert "job.end_unclear" in caplog.text
    assert "job.lost" not in caplog.text


async def test_a_lost_listener_comes_back(
    app: App, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @app.task
    async def note(name: str) -> None:
        seen.append(name)

    listeners = (
        "SELECT pid FROM pg_stat_activity "
        "WHERE application_name = 'inturn listener' AND datname = current_database()"
    )
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(wait=True, **FAST_TAKEOVER))
        await until(lambda: query("SELECT FROM workers WHERE listens"))
        ((first,),) = query(listeners)
        query("SELECT pg_terminate_backend(%s)", first)
        await until(lambda: [pid for (pid,) in query(listeners) if pid != first])
        note.defer("heard")
        await until(lambda: seen)
        group.cancel_scope.cancel()
    [lost] = [record for record in caplog.records if "listen.lost" in record.message]
    assert lost.levelname == "WARNING"  # an outage is expected
    assert "\n" not in lost.message


async def test_an_idle_worker_without_jobs_ends_at_once_when_it_need_not_wait(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with anyio.fail_after(120):
        await app.run_worker_async()
    assert "worker.started" in caplog.text
    assert "worker.stopped" in caplog.text


async def test_queues_and_middleware_may_be_iterators() -> None:
    async def layer(call_next: Any, context: Any, worker: Any) -> Any: ...

    found = options(
        {
            "queues": iter(["a", "b", "a"]),
            "task_middleware": iter([layer]),
            "worker_middleware": iter([layer]),
        }
    )
    assert found.queues == ["a", "b"]
    assert found.task_middleware == found.worker_middleware == (layer,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency: 0: a worker runs at least 1"),
        ({"concurrency": "4"}, "concurrency: '4': a worker runs at least 1"),
        ({"concurrency": 2.5}, "concurrency: 2.5: a worker runs at least 1"),
        ({"max_jobs": "5"}, "max_jobs: '5': give at least 1"),
        ({"abort_job_polling_interval": "5"}, "abort_job_polling_interval: '5' seconds: must be"),
        ({"stalled_worker_timeout": "30"}, "stalled_worker_timeout: '30' seconds: must be at"),
        ({"queues": "letters"}, "queues: 'letters': give a list of names"),
        ({"queues": []}, r"queues: \[\]: give a list"),
        ({"queues": ["a,b"]}, "queue: 'a,b' is not a valid queue name"),
        (
            {"stalled_worker_timeout": 5},
            "stalled_worker_timeout: 5 seconds: must be at least three heartbeats",
        ),
        (
            {"fetch_job_polling_interval": 0},
            "fetch_job_polling_interval: 0 seconds: must be greater than 0",
        ),
        (
            {"concurency": 2},
            r"concurency is not an option of a worker\. Did you mean concurrency\? The options are",
        ),
    ],
)
async def test_a_bad_worker_option_is_refused_before_it_starts(
    app: App, options: Any, message: str
) -> None:
    with pytest.raises(BadArgument, match=message):
        await app.run_worker_async(**options)


async def test_a_lost_abort_request_is_found_by_polling(app: App, query: Query) -> None:
    started = anyio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await anyio.sleep(3600)

    job_id = endless.defer()
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            options: dict[str, Any] = {
                "listen_notify": False,
                "abort_job_polling_interval": 0.02,
                "update_heartbeat_interval": 10.0,
            }
            group.start_soon(partial(app.run_worker_async, **options))
            await started.wait()
            assert app.job_manager.cancel_job_by_id(job_id, abort=True)
    assert query("SELECT status::text FROM all_jobs") == [("aborted",)]
