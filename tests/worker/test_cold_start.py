"""What a worker does at its start, and what it leaves for later."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import psycopg
import pytest

from inturn import App, PsycopgConnector
from inturn.operations.engine.maintenance import DAYS_AHEAD, get_now
from inturn.worker import maintenance as maintenance_module
from inturn.worker.maintenance import Maintenance
from inturn.worker.options import options
from tests.conftest import Query, Until
from tests.worker.parts import Parts

pytestmark = pytest.mark.anyio

# Only what happens at the start can happen within a test.
SLOW: dict[str, Any] = {
    "wait": True,
    "update_heartbeat_interval": 1000,
    "stalled_worker_timeout": 3000,
}
SESSIONS = """
SELECT application_name FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'inturn %' ORDER BY 1
"""
DAYS = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'finished_jobs'::regclass"
PREPARE = "SELECT prepare_history(%s)"
ORPHAN = "SELECT id FROM claim(register_worker('gone', 'there', 1, NULL, 1), NULL, 1)"


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(**SLOW))
        with anyio.fail_after(120):
            yield
        group.cancel_scope.cancel()


@pytest.fixture
def apart(app_dsn: str) -> App:
    """An app without a pool, so that all connections are the worker's."""
    return App(app_dsn, worker_defaults={"install_signal_handlers": False})


def notes(app: App) -> tuple[Callable[[], None], list[int]]:
    """Return a function that enqueues a job, and the list to which its task appends."""
    ran: list[int] = []

    @app.task(name="note")
    async def note() -> None:
        ran.append(1)

    def enqueue() -> None:
        with app.open():
            note.defer()

    return enqueue, ran


async def test_a_worker_that_nobody_needs_opens_three_connections(
    apart: App, query: Query, until: Until
) -> None:
    enqueue, ran = notes(apart)
    query(PREPARE, DAYS_AHEAD)
    enqueue()
    await until(lambda: query(SESSIONS) == [])  # the server has noticed that the pool is closed
    async with working(apart):
        await until(lambda: ran and ("inturn listener",) in query(SESSIONS))
        await until(lambda: query("SELECT count(*) FROM finished_jobs") == [(1,)])
        assert query(SESSIONS) == [("inturn listener",), ("inturn worker",), ("inturn worker",)]


async def test_a_new_worker_rescues_at_once_the_jobs_of_a_worker_that_is_gone(
    apart: App, query: Query, until: Until
) -> None:
    enqueue, ran = notes(apart)
    query(PREPARE, DAYS_AHEAD)
    enqueue()
    query(ORPHAN)
    query("DELETE FROM workers RETURNING 1")
    async with working(apart):
        await until(lambda: ran)
    assert query("SELECT status::text FROM finished_jobs") == [("succeeded",)]


async def test_a_new_worker_looks_at_once_after_one_that_is_late_with_its_jobs(
    apart: App, query: Query, until: Until
) -> None:
    enqueue, _ = notes(apart)
    query(PREPARE, DAYS_AHEAD)
    enqueue()
    query(ORPHAN)
    query("UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour' RETURNING 1")
    async with working(apart):
        await until(lambda: ("inturn maintenance",) in query(SESSIONS))
        assert ("inturn maintenance",) in query(SESSIONS)


@pytest.mark.parametrize("ready", ["nothing", "today"])
async def test_a_new_worker_makes_the_days_that_the_history_lacks_at_once(
    apart: App, query: Query, until: Until, ready: str
) -> None:
    if ready == "today":
        query(PREPARE, 0)
    async with working(apart):
        await until(lambda: query(DAYS) == [(1 + DAYS_AHEAD + 1,)])  # and the net under them
    assert query(DAYS) == [(1 + DAYS_AHEAD + 1,)]


async def test_a_silent_worker_is_judged_from_the_first_look_on(
    app: App, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(maintenance_module, "time", clock)
    query(PREPARE, DAYS_AHEAD)
    query("SELECT register_worker('silent', 'there', 1, NULL, 1)")
    parts = Parts(app)
    await parts.registration.register()
    mine = parts.registration.worker_id
    upkeep = Maintenance(app.connector, options({}), lambda: mine, lambda: None)
    upkeep.stop()  # there is no thread, only the rounds below
    await upkeep.begin(parts.link)
    with app.connector.connect("test") as connection:
        for now[0] in (10.0, 20.0, 30.0):
            assert query("SELECT count(*) FROM workers") == [(2,)]
            query("SELECT heartbeat(%s)", mine)
            upkeep.run_once(connection)
    assert query("SELECT id FROM workers") == [(mine,)]
    await parts.close()


async def test_tasks_that_need_the_pool_at_the_same_time_open_only_one(
    app_dsn: str, query: Query
) -> None:
    connector = PsycopgConnector(app_dsn, max_size=2)
    await connector.open_async_later()
    assert connector.is_open_async
    assert query(SESSIONS) == []
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(lambda: connector.run_async(get_now()))
    assert 1 <= len(query(SESSIONS)) <= 2
    await connector.close_async()
    assert not connector.is_open_async


def test_the_days_of_the_history_are_there_before_the_first_worker(empty_dsn: str) -> None:
    App(empty_dsn).schema_manager.apply_schema()
    with psycopg.connect(empty_dsn, options="-c search_path=inturn") as connection:
        assert connection.execute(DAYS).fetchall() == [(1 + DAYS_AHEAD + 1,)]
