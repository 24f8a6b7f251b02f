"""A worker claims short jobs ahead, and gives back those that a long one would hold up."""

import math
import threading
from datetime import timedelta
from functools import partial

import anyio
import psycopg
import pytest

from inturn import App
from inturn.worker.claiming import claiming
from inturn.worker.claiming.claiming import MOST_AHEAD, Prefetch
from inturn.worker.claiming.wakeups import PATIENCE, Wakeups
from tests.conftest import Query, Until


def test_a_new_worker_takes_no_more_than_it_can_run() -> None:
    assert Prefetch(3).capacity == 3


def test_short_jobs_are_claimed_ahead_within_bounds_and_a_long_one_ends_that() -> None:
    prefetch = Prefetch(3)
    for _ in range(20):
        prefetch.note_ended(1000)
    assert prefetch.capacity == 3 + MOST_AHEAD
    assert prefetch.prefers_claim(in_hand=MOST_AHEAD // 2)
    assert not prefetch.prefers_claim(in_hand=MOST_AHEAD // 2 + 2)
    prefetch.slow_down()
    assert prefetch.capacity == 3


def test_where_long_jobs_come_among_short_ones_little_is_claimed_ahead() -> None:
    prefetch = Prefetch(3)
    for between in (30, 200, 1, 2000, 40):  # short jobs between two long ones
        for _ in range(between):
            prefetch.note_ended(
                1
            )  # at 2,000 a second, as far as it can see: a fiftieth of that is 40
        assert prefetch.capacity - 3 <= max(40, between // 10)
        assert between < 2000 or prefetch.capacity - 3 > 40
        prefetch.slow_down()


def test_a_worker_that_claims_nothing_ahead_reports_before_it_claims() -> None:
    assert not Prefetch(1).prefers_claim(in_hand=0)


def test_a_worker_is_patient_thrice_and_again_when_it_has_found_something() -> None:
    wakeups = Wakeups(poll=600.0)
    for _ in range(PATIENCE):
        assert wakeups.patient
        wakeups.note_not_filled(0, timedelta(0), notified=True)
    assert not wakeups.patient
    wakeups.note_not_filled(1, timedelta(0), notified=True)
    assert wakeups.patient


def test_jobs_that_wait_for_a_slot_get_stale() -> None:
    assert Prefetch(1).until_stale(claimed_at=0.0) == 0


@pytest.mark.anyio
@pytest.mark.parametrize("lock", [None, "lane"], ids=["free", "in lanes"])
async def test_jobs_claimed_ahead_of_a_long_job_are_run_by_others(
    app: App, query: Query, until: Until, lock: str | None
) -> None:
    release = threading.Event()
    done: list[int] = []

    @app.task
    def short(number: int) -> None:
        done.append(number)

    @app.task
    def long() -> None:
        release.wait(60)

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True, name="first"))
        for number in range(300):  # a pace at which the worker claims ahead
            short.defer(number)
        await until(lambda: len(done) == 300)
        jobs = [
            short.configure(lock=lock and f"{lock}{n}")._job((), {"number": n})
            for n in range(300, 320)
        ]
        app.enqueue([long._job((), {}), *jobs])
        await until(lambda: query("SELECT FROM jobs WHERE task LIKE '%%long' AND status = 'doing'"))
        group.start_soon(partial(app.run_worker_async, wait=True, name="second"))
        await until(lambda: len(done) == 320)  # while the long one still runs
        release.set()
        await until(lambda: query("SELECT FROM jobs HAVING count(*) = 0"))
        group.cancel_scope.cancel()
    assert query("SELECT max(attempts) FROM finished_jobs") == [(1,)]
    assert query("SELECT count(*) FROM lanes") == [(0,)]


@pytest.mark.anyio
async def test_a_stopping_worker_gives_back_the_jobs_that_have_not_begun(
    app: App, query: Query, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inturn.worker.options import options
    from inturn.worker.worker import Worker

    monkeypatch.setattr(claiming, "STALE_SECONDS", math.inf)  # jobs ahead stay while we look
    started = anyio.Event()
    begun: list[int] = []

    @app.task
    async def short(number: int) -> None:
        begun.append(number)

    @app.task
    async def long() -> None:
        started.set()
        await release.wait()

    release = anyio.Event()
    async with app.open_async(), anyio.create_task_group() as group:
        prefetch = Prefetch(1)
        prefetch.note_ended(100_000)  # as after a burst of short jobs
        worker = Worker(app, app.connector, options({"install_signal_handlers": False}), prefetch)
        app.enqueue([long._job((), {}), *(short._job((), {"number": n}) for n in range(10))])
        group.start_soon(worker.run)
        await started.wait()
        try:
            await until(
                lambda: query("SELECT FROM jobs WHERE status = 'doing' HAVING count(*) = 11")
            )
            worker.stop()
            await until(
                lambda: query("SELECT FROM jobs WHERE status = 'todo' HAVING count(*) = 10")
            )
        finally:
            release.set()
    assert begun == []
    assert query("SELECT DISTINCT attempts FROM jobs") == [(0,)]


@pytest.mark.anyio
async def test_a_worker_runs_the_jobs_that_it_has_put_back_when_its_slot_is_free(
    app: App, query: Query, until: Until
) -> None:
    """Even if nothing wakes it and it never polls, and its last claim has left nothing to start."""
    from inturn.worker.options import options
    from inturn.worker.worker import Worker

    release = anyio.Event()
    done: list[int] = []

    @app.task
    async def short(number: int) -> None:
        done.append(number)

    @app.task
    async def long() -> None:
        await release.wait()

    prefetch = Prefetch(1)
    prefetch.note_ended(100_000)
    quiet = {
        "install_signal_handlers": False,
        "listen_notify": False,
        "fetch_job_polling_interval": 3600,
    }
    async with app.open_async(), anyio.create_task_group() as group:
        worker = Worker(app, app.connector, options(quiet), prefetch)
        app.enqueue([long._job((), {}), *(short._job((), {"number": n}) for n in range(3))])
        group.start_soon(worker.run)
        try:
            await until(lambda: prefetch.capacity == 1)  # it has claimed all, and puts three back
            await until(lambda: query("SELECT FROM jobs WHERE status = 'todo' HAVING count(*) = 3"))
        finally:
            release.set()
        await until(lambda: len(done) == 3)
        group.cancel_scope.cancel()
    assert sorted(done) == [0, 1, 2]


@pytest.mark.anyio
async def test_a_claim_that_is_stuck_at_the_front_keeps_no_worker_from_the_jobs_behind(
    app: App, query: Query, until: Until, dsn: str
) -> None:
    done: list[str] = []

    @app.task
    def work(lock: str) -> None:
        done.append(lock)

    def defer(lock: str) -> None:
        work.configure(lock=lock).defer(lock=lock)

    claim = "SELECT id FROM inturn.claim(inturn.register_worker(%s, 'here', 1, NULL, 1), NULL, 1)"
    async with app.open_async(), anyio.create_task_group() as group:
        defer("held")
        assert query(claim, "holder")
        for _ in range(9):
            defer("held")
        with psycopg.connect(dsn) as stuck:
            assert stuck.execute(claim, ["stuck"]).fetchall() == []
            for number in range(5):
                defer(f"free {number}")
            group.start_soon(partial(app.run_worker_async, install_signal_handlers=False))
            await until(lambda: len(done) == 5)
        group.cancel_scope.cancel()
    assert sorted(done) == [f"free {number}" for number in range(5)]


def test_looks_that_other_events_bring_do_not_postpone_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    wakeups = Wakeups(3600.0)
    for _ in range(100):
        wakeups.note_not_filled(0, None, notified=False)
    assert wakeups._look_at < now + 1
    pauses = []
    for _ in range(10):
        now = wakeups._look_at
        wakeups.note_not_filled(0, None, notified=False)
        pauses.append(wakeups._look_at - now)
    assert pauses[-1] > 50 * pauses[0]
