"""The ways to give an app its database, and to replace it."""

from collections.abc import Callable
from typing import Any

import anyio
import psycopg
import pytest
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from inturn import App, PsycopgConnector, SyncPsycopgConnector
from inturn.errors import AppNotOpen, ConfigurationError, SyncConnectorConfigurationError
from tests.conftest import Query

Make = Callable[[str], PsycopgConnector]

SPELLINGS: dict[str, Make] = {
    "dsn": PsycopgConnector,
    "conninfo": lambda dsn: PsycopgConnector(conninfo=dsn),
    "kwargs": lambda dsn: PsycopgConnector(kwargs=conninfo_to_dict(dsn)),
    "options": lambda dsn: PsycopgConnector(**conninfo_to_dict(dsn)),  # type: ignore[arg-type]
    "sync": SyncPsycopgConnector,
}


@pytest.mark.parametrize("make", SPELLINGS.values(), ids=SPELLINGS)
def test_a_database_can_be_named_in_several_ways(
    dsn: str, query: Query, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INTURN_DSN", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with App(connector=make(dsn)).open() as app:
        app.configure_task("t").defer()
    assert query("SELECT count(*) FROM jobs") == [(1,)]


def test_an_app_without_a_database_or_with_two_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="both dsn and conninfo"):
        PsycopgConnector("dbname=a", conninfo="dbname=b")
    for timeout in (0, float("inf"), float("nan")):
        with pytest.raises(ConfigurationError, match=f"timeout={timeout} is not"):
            PsycopgConnector("dbname=a", timeout=timeout)
    for schema in ("", "100%", "s" * 64):
        with pytest.raises(ConfigurationError, match=f"schema='{schema}' cannot be the queue's"):
            PsycopgConnector("dbname=a", schema=schema)
    with pytest.raises(ConfigurationError, match=r"an option that libpq does not know.*colour"):
        _ = PsycopgConnector("dbname=a", colour="red").dsn


ASYNC: dict[str, Callable[[App], Any]] = {
    "open_async": lambda app: app.open_async().__aenter__(),
    "defer_async": lambda app: app.configure_task("t").defer_async(),
    "a worker": lambda app: app.run_worker_async(install_signal_handlers=False),
}


@pytest.mark.parametrize("call", ASYNC.values(), ids=ASYNC)
def test_a_sync_connector_refuses_what_is_async(dsn: str, call: Callable[[App], Any]) -> None:
    app = App(connector=SyncPsycopgConnector(dsn))
    with pytest.raises(SyncConnectorConfigurationError, match="Give the App a PsycopgConnector"):
        anyio.run(call, app)


def test_a_pool_of_the_callers_is_used_and_left_open(dsn: str, query: Query) -> None:
    app = App("dbname=no_such_database")
    with ConnectionPool[psycopg.Connection[Any]](dsn, min_size=1) as pool:
        with app.open(pool):
            app.configure_task("t").defer()
        with pytest.raises(AppNotOpen):
            app.configure_task("t").defer()
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)

    async def in_async_code() -> None:
        async with AsyncConnectionPool[psycopg.AsyncConnection[Any]](
            dsn, min_size=1, open=False
        ) as pool:
            async with app.open_async(pool):
                await app.configure_task("t").defer_async()
            async with pool.connection() as connection:
                await connection.execute("SELECT 1")

    anyio.run(in_async_code)
    assert query("SELECT count(*) FROM jobs") == [(2,)]


def test_the_last_of_several_closes_in_an_event_loop_closes_the_pool(
    dsn: str, query: Query
) -> None:
    app = App(dsn)

    async def nest() -> None:
        async with app.open_async():
            async with app.open_async():
                await app.configure_task("t").defer_async()
            await app.configure_task("t").defer_async()
        with pytest.raises(AppNotOpen):
            await app.configure_task("t").defer_async()

    anyio.run(nest)
    assert query("SELECT count(*) FROM jobs") == [(2,)]


def test_a_task_that_opens_and_closes_its_app_leaves_the_worker_open(app: App) -> None:
    @app.task
    async def open_and_close() -> None:
        async with app.open_async():
            await app.check_connection_async()

    @app.task
    async def rely_on_the_worker() -> None:
        await app.check_connection_async()

    open_and_close.defer()
    job = rely_on_the_worker.defer()
    app.run_worker()
    assert app.job_manager.get_job_status(job) == "succeeded"


def test_a_connector_is_replaced_for_a_while(dsn: str, empty_dsn: str, query: Query) -> None:
    app = App(empty_dsn)

    @app.task
    def task() -> None: ...

    deferrer = task.configure(lock="lane")  # made before
    with app.replace_connector(PsycopgConnector(dsn)) as replaced, replaced.open():
        assert replaced is app
        job_id = deferrer.defer()
        app.lanes.pause("lane")
        assert app.job_manager.get_job_status(job_id) == "blocked"
        assert app.check_connection()
    assert query("SELECT state::text FROM lanes") == [("paused",)]
    assert conninfo_to_dict(app.connector.dsn) == conninfo_to_dict(make_conninfo(empty_dsn))
    with app.open():
        assert not app.check_connection()


def test_a_connector_is_put_back_when_something_goes_wrong(dsn: str, empty_dsn: str) -> None:
    app = App(empty_dsn)
    before = app.connector
    with pytest.raises(ZeroDivisionError), app.replace_connector(PsycopgConnector(dsn)):
        raise ZeroDivisionError
    assert app.connector is before


def test_an_open_that_fails_does_not_count(dsn: str) -> None:
    app = App(connector=PsycopgConnector(dsn, colour="red"))
    with pytest.raises(ConfigurationError, match="libpq does not know"):
        app.open()
    with pytest.raises(AppNotOpen, match="The app is not open"):
        app.check_connection()


def test_an_open_that_fails_in_an_event_loop_does_not_count(dsn: str) -> None:
    app = App(connector=PsycopgConnector(dsn, colour="red"))

    async def fail() -> None:
        with pytest.raises(ConfigurationError, match="libpq does not know"):
            await app.open_async()
        with pytest.raises(AppNotOpen, match="The app is not open"):
            await app.check_connection_async()

    anyio.run(fail)
    with pytest.raises(AppNotOpen, match="The app is not open"):
        app.check_connection()


def test_the_connections_of_the_pool_have_a_name_that_you_can_change(dsn: str) -> None:
    def names(**options: Any) -> set[str]:
        app = App(connector=PsycopgConnector(dsn, **options))
        with app.open(), app.connector.lend() as own:
            return {row[0] for row in own.execute("SHOW application_name").fetchall()}

    assert names(application_name="shop") == {"shop"}
    assert names() == {"inturn pool"}


def test_an_event_loop_of_another_kind_is_refused_with_a_way_out(dsn: str, query: Query) -> None:
    app = App(dsn)

    @app.task
    def note() -> None: ...

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="not an asyncio event loop"):
            async with app.open_async():
                raise AssertionError
        with pytest.raises(ConfigurationError, match="not an asyncio event loop"):
            await app.run_worker_async(wait=False)
        with app.open():
            await trio.to_thread.run_sync(lambda: note.defer())

    trio.run(main)
    assert query("SELECT count(*) FROM inturn.jobs") == [(1,)]
