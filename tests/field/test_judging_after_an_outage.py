"""Defect C: after an outage, the first worker that came back declared the others dead.

Their jobs ran twice.
"""

import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App, JobContext, Task
from inturn.worker.maintenance import Maintenance
from inturn.worker.options import options
from tests.conftest import Until
from tests.field.outage import outage

pytestmark = [pytest.mark.anyio, pytest.mark.landing]
FAST: dict[str, Any] = {
    "update_heartbeat_interval": 0.4,
    "stalled_worker_timeout": 1.5,
    "wait": True,
}
# A machine that stands still for a moment must not make a live worker look dead.
PATIENT = FAST | {"stalled_worker_timeout": 3.2}


@asynccontextmanager
async def workers(app: App, count: int, options: dict[str, Any] = FAST) -> Any:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.open_async())
        group = await stack.enter_async_context(anyio.create_task_group())
        for number in range(count):
            group.start_soon(lambda name: app.run_worker_async(name=name, **options), f"w{number}")
        yield
        group.cancel_scope.cancel()


def ask(dsn: str, statement: str) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        return connection.execute(statement.encode()).fetchall()


def all_have_beaten_since(dsn: str, moment: Any) -> bool:
    return ask(dsn, f"SELECT count(*) FROM workers WHERE heartbeat_at > '{moment}'") == [(3,)]


def declare_a_task_that_stays(app: App) -> tuple[Task[[], None], list[int], threading.Event]:
    """Return the task, the jobs that have started, and the event that lets them end."""
    starts: list[int] = []
    release = threading.Event()

    @app.task(pass_context=True, lock="lane")
    def stay(context: JobContext) -> None:
        starts.append(context.job.id)
        release.wait(60)

    return stay, starts, release


@pytest.mark.fresh_database
@pytest.mark.parametrize(("outages", "seconds"), [(1, 6.0), (2, 4.4)])
async def test_no_outage_makes_a_healthy_worker_s_job_start_twice(
    app: App, dsn: str, until: Until, caplog: pytest.LogCaptureFixture, outages: int, seconds: float
) -> None:
    stay, starts, release = declare_a_task_that_stays(app)
    job_ids = [stay.configure(lock=f"lane {n}").defer() for n in range(3)]
    try:
        async with workers(app, 3, PATIENT):
            await until(lambda: len(starts) == 3)
            for _ in range(outages):
                with outage(dsn):
                    await anyio.sleep(seconds)  # longer than anybody may be silent
                await until(
                    lambda: all_have_beaten_since(
                        dsn, ask(dsn, "SELECT now() - interval '0.6 s'")[0][0]
                    )
                )
            await anyio.sleep(1.5 * PATIENT["stalled_worker_timeout"])  # now any worker may judge
            release.set()
            await until(lambda: ask(dsn, "SELECT count(*) FROM finished_jobs") == [(3,)])
    finally:
        release.set()
    assert sorted(starts) == job_ids
    ends = ask(dsn, "SELECT status::text, attempts, errors::text FROM finished_jobs")
    assert ends == [("succeeded", 1, "[]")] * 3
    assert "worker.lost" not in caplog.text


async def test_a_worker_whose_row_somebody_has_locked_is_not_declared_dead(
    app: App, dsn: str, until: Until
) -> None:
    stay, starts, release = declare_a_task_that_stays(app)
    stay.defer()
    try:
        async with workers(app, 3, PATIENT):
            await until(lambda: starts)
            with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
                connection.execute(
                    "SELECT FROM workers WHERE id IN (SELECT worker_id FROM jobs) FOR UPDATE"
                )
                await anyio.sleep(2.5 * PATIENT["stalled_worker_timeout"])
            await anyio.sleep(1.5 * PATIENT["stalled_worker_timeout"])
            assert ask(dsn, "SELECT count(*) FROM workers") == [(3,)]
            release.set()
            await until(lambda: ask(dsn, "SELECT count(*) FROM finished_jobs") == [(1,)])
    finally:
        release.set()
    assert len(starts) == 1


def leave_a_job_to_a_dead_worker(app: App, dsn: str) -> list[int]:
    """Return a list to which each run of the job will add its earlier attempts."""
    runs: list[int] = []

    @app.task(pass_context=True, lock="lane")
    async def note(context: JobContext) -> None:
        runs.append(context.job.attempts)

    note.defer()
    ask(dsn, "SELECT id FROM claim(register_worker('dead', 'there', 1, NULL, 1), NULL, 1)")
    return runs


async def test_a_worker_that_really_is_silent_is_declared_dead_and_its_job_taken_over(
    app: App, dsn: str, until: Until
) -> None:
    runs = leave_a_job_to_a_dead_worker(app, dsn)
    async with workers(app, 2):
        await until(lambda: runs)
        await until(lambda: ask(dsn, "SELECT count(*) FROM finished_jobs") == [(1,)])
    assert runs == [1]


async def test_a_worker_that_need_not_wait_waits_for_the_verdict_on_a_silent_one(
    app: App, dsn: str
) -> None:
    runs = leave_a_job_to_a_dead_worker(app, dsn)
    ask(dsn, "UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour' RETURNING 1")
    with anyio.fail_after(120):
        await app.run_worker_async(**FAST | {"wait": False})
    assert runs == [1]


def test_a_worker_whose_row_was_locked_has_its_whole_time_again(app: App, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=inturn") as connection:
        ((mine,),) = connection.execute(
            "SELECT register_worker('me', 'here', 1, NULL, 1)"
        ).fetchall()
        connection.execute("SELECT register_worker('other', 'there', 1, NULL, 1)")
        maintenance = Maintenance(app.connector, options(FAST), lambda: mine, lambda: None)

        def judge(times: int) -> None:
            for _ in range(times):
                connection.execute("SELECT heartbeat(%s)", [mine])
                maintenance.run_once(connection)
                time.sleep(FAST["update_heartbeat_interval"])

        with psycopg.connect(dsn, options="-c search_path=inturn") as user:
            user.execute("SELECT FROM workers WHERE name = 'other' FOR UPDATE")
            judge(5)
        judge(1)
        assert ask(dsn, "SELECT count(*) FROM workers") == [(2,)]
        judge(5)
        assert ask(dsn, "SELECT count(*) FROM workers") == [(1,)]
