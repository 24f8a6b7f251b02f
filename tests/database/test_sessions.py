"""A session is set up when it is made, so the settings of a database or role do no harm."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Thread
from typing import LiteralString

import anyio
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from inturn import App, JobContext, PsycopgConnector
from inturn.database import drive, pools
from inturn.database.deadlines import Terms
from inturn.database.session import AsyncSession, Session
from inturn.embedded import Server
from inturn.errors import DatabaseBusy, DatabaseUnavailable
from inturn.operations import Operation, Statement
from inturn.schema.migrate import migrate
from inturn.sql import SCHEMA
from tests.conftest import Query

Default = Callable[[LiteralString], None]
WORKER = {"wait": False, "install_signal_handlers": False}


@pytest.fixture
def default(dsn: str) -> Iterator[Default]:
    """Change the settings of new sessions in the test's database."""
    with psycopg.connect(dsn, autocommit=True) as connection:

        def change(setting: LiteralString) -> None:
            connection.execute(
                SQL("ALTER DATABASE {} {}").format(Identifier(connection.info.dbname), SQL(setting))
            )

        yield change


def setting(name: str) -> Operation[str]:
    rows = yield Statement("SELECT current_setting(%s)", (name,))
    return str(rows[0][0])


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_another_isolation_level_by_default_disturbs_nothing(
    dsn: str, default: Default, query: Query, level: LiteralString
) -> None:
    default(f"SET default_transaction_isolation = '{level}'")
    app = App(dsn)
    levels: list[str] = []

    @app.task(pass_context=True, lock="lane")
    def task(context: JobContext) -> None:
        with context.transaction() as connection:
            levels.extend(row[0] for row in connection.execute("SHOW transaction_isolation"))

    with app.open():
        jobs = [task.defer(), task.defer()]
        app.lanes.pause("lane")
        app.lanes.resume("lane")
        app.job_manager.cancel_job_by_id(jobs[0])
        app.run_worker(**WORKER)
        assert app.job_manager.get_job_status(jobs[1]) == "succeeded"
    assert levels == ["read committed"]

    async def in_async_code() -> str:
        async with app.open_async():
            job = await task.defer_async()
            await app.run_worker_async(**WORKER)
            return str(await app.job_manager.get_job_status_async(job))

    assert anyio.run(in_async_code) == "succeeded"


def test_a_database_that_is_read_only_is_used_again_when_it_is_not(
    dsn: str, default: Default, query: Query
) -> None:
    default("SET default_transaction_read_only = on")
    app = App(dsn)
    with app.open():
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable, match="read-only"):
                app.configure_task("t").defer()
        assert app.job_manager.list_queues() == []  # a session that only reads is not disturbed
        default("RESET default_transaction_read_only")
        app.configure_task("t").defer()
    assert query("SELECT count(*) FROM jobs") == [(1,)]


@pytest.mark.landing
def test_after_a_switch_over_a_pool_finds_the_new_primary(bin_dir: Path | None) -> None:
    with ExitStack() as servers:
        dsns = [servers.enter_context(Server(bin_dir=bin_dir)).dsn() for _ in range(2)]
        for dsn in dsns:
            migrate(dsn)
        hosts = ",".join(str(psycopg.conninfo.conninfo_to_dict(dsn)["host"]) for dsn in dsns)
        both = psycopg.conninfo.make_conninfo(
            dsns[0], host=hosts, target_session_attrs="read-write", port="5432,5432"
        )
        app = App(both)

        def demote(dsn: str) -> None:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
                connection.execute("SELECT pg_reload_conf()")

        def deferred(dsn: str) -> list[tuple[int]]:
            with psycopg.connect(dsn) as connection:
                return connection.execute("SELECT count(*) FROM inturn.jobs").fetchall()

        async def in_async_code() -> None:
            async with app.open_async():
                await app.configure_task("t").defer_async()
                app.configure_task("t").defer()
                assert deferred(dsns[0]) == [(2,)]
                demote(dsns[0])
                while deferred(dsns[1]) == [(0,)]:  # until the server has read its settings
                    await app.configure_task("t").defer_async()
                before = deferred(dsns[0])
                app.configure_task("t").defer()
                await app.configure_task("t").defer_async()
                assert deferred(dsns[0]) == before
                assert deferred(dsns[1]) == [(3,)]

        anyio.run(in_async_code)


@pytest.mark.parametrize(
    ("role", "given", "found"),
    [
        ("worker", None, "100ms"),
        ("maintenance", None, "100ms"),
        ("maintenance", 0.05, "50ms"),
        ("worker", 0, "0"),
        ("command", None, "0"),
        ("command", 0.2, "200ms"),
    ],
)
def test_a_worker_waits_for_no_lock_for_long(
    dsn: str, role: str, given: float | None, found: str
) -> None:
    with closing(PsycopgConnector(dsn).connect(role, lock_timeout=given)) as own:
        assert drive.run(setting("lock_timeout"), own, SCHEMA) == found
        assert drive.run(setting("client_connection_check_interval"), own, SCHEMA) == (
            "0" if role == "command" else "1s"
        )
        with psycopg.connect(dsn) as holder:
            holder.execute("LOCK TABLE inturn.workers")
            if found != "0":
                with pytest.raises(DatabaseBusy):
                    drive.run(setting_of_a_locked_table(), own, SCHEMA)
                assert not own.closed


def test_a_repeated_call_takes_no_connection_from_before_the_failure(dsn: str) -> None:
    connector = PsycopgConnector(dsn)
    with App(connector=connector).open():
        pool = connector._sync_pool()
        idle = pools.take(pool, 5.0)
        pool.putconn(idle)
        failed_at = time.monotonic()
        taken = pools.take(pool, 5.0, failed_at)
        pool.putconn(taken)
    assert taken is not idle
    assert idle.closed


@pytest.mark.anyio
async def test_a_session_is_closed_even_if_its_rollback_is_cancelled(dsn: str) -> None:
    connector = PsycopgConnector(dsn)
    with anyio.CancelScope() as scope:
        async with await connector.connect_async("listener") as session:
            await session.execute("BEGIN")
            scope.cancel()
            await anyio.sleep_forever()
    assert session.closed


@pytest.mark.anyio
async def test_waiting_for_notifications_ends_in_time(dsn: str) -> None:
    """Each look at the clock suspends the wait, and must not let it begin again."""
    terms = Terms(dsn, ask_after=0.2)
    with anyio.fail_after(60):
        async with await AsyncSession.connect(dsn, terms=terms) as session:
            assert [note async for note in session.notifies(timeout=1)] == []
    with Session.connect(dsn, terms=terms) as direct:
        listener = Thread(target=lambda: list(direct.notifies(timeout=1)), daemon=True)
        listener.start()
        listener.join(60)
        assert not listener.is_alive()


def setting_of_a_locked_table() -> Operation[None]:
    yield Statement("SELECT count(*) FROM {schema}.workers")


def test_a_pooler_s_session_is_left_as_it_is(dsn: str) -> None:
    """A pooler invents the session's id, and the next client would inherit the settings."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        terms, pid = Terms("", settings={"lock_timeout": "100ms"}), connection.info.backend_pid
        assert connection.execute(*terms.settle(pid + 1)).fetchall() == [(False, None)]
        assert connection.execute("SHOW lock_timeout").fetchall() == [("0",)]
        assert connection.execute(*terms.settle(pid)).fetchall() == [(True, "100ms")]
        assert connection.execute("SHOW lock_timeout").fetchall() == [("100ms",)]
