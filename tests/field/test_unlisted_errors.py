"""Errors that nobody has listed. They once ended every worker, and none was there when they passed."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, LiteralString

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier, Literal

from inturn import App, JobContext
from inturn.health.checks import READY
from inturn.health.probe import ask
from inturn.testing import Databases
from inturn.worker import listener
from inturn.worker.reporting import MOST_REFUSED
from tests.chaos.server import free_port
from tests.conftest import Query, Until
from tests.field.conftest import Start
from tests.field.outage import END_SESSIONS
from tests.field.test_connection_limit import judge_workers
from tests.waiting import LIMIT, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.fresh_database]
OPTIONS: dict[str, Any] = {
    "wait": True,
    "update_heartbeat_interval": 0.2,
    "stalled_worker_timeout": 5.0,
    "fetch_job_polling_interval": 0.5,
}
# What the server refuses, and at which call of the worker.
CLAIM = "BEFORE UPDATE ON inturn.jobs FOR EACH ROW WHEN (NEW.status = 'doing')"
FINISH = "BEFORE INSERT ON inturn.finished_jobs FOR EACH ROW"
HEARTBEAT = "BEFORE UPDATE ON inturn.workers FOR EACH ROW"
ENDED = "SELECT FROM finished_jobs HAVING count(*) = %s"
CALLS: dict[str, LiteralString] = {"claim": CLAIM, "finish": FINISH, "heartbeat": HEARTBEAT}


@contextmanager
def refused(dsn: str, call: LiteralString, code: str) -> Iterator[None]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            SQL(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'strange' USING ERRCODE = {}; END $$"
            ).format(Literal(code))
        )
        connection.execute(
            SQL("CREATE TRIGGER refuse {} EXECUTE FUNCTION refuse()").format(SQL(call))
        )
        yield
        connection.execute("DROP FUNCTION refuse CASCADE")


@pytest.fixture
def ran(app: App) -> list[str]:
    """The names of the jobs that the task `run` has run."""
    names: list[str] = []

    @app.task(name="run", pass_context=True)
    async def run(context: JobContext, name: str) -> None:
        names.append(name)
        if name == "one that tells its progress":
            context.progress(1)

    return names


async def test_a_job_whose_end_is_refused_holds_up_no_other(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture, ran: list[str]
) -> None:
    names = ["bad", "good 1", "good 2", "good 3"]
    async with anyio.create_task_group() as group:
        with refused(dsn, FINISH + " WHEN (NEW.args ->> 'name' = 'bad')", "P0001"):
            app.tasks["run"].batch_defer(*({"name": name} for name in names))
            group.start_soon(partial(app.run_worker_async, **OPTIONS))
            await until(lambda: query(ENDED, 3))
            assert query("SELECT args ->> 'name' FROM inturn.jobs") == [("bad",)]
        await until(lambda: query(ENDED, 4))
        group.cancel_scope.cancel()
    assert sorted(ran) == names
    assert caplog.text.count("job.end_refused") == 1


async def test_an_error_in_letters_that_the_database_lacks_ends_its_job(
    databases: Databases,
) -> None:
    with psycopg.connect(databases.server_dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        app = App(make_conninfo(databases.server_dsn, dbname="latin"))
        app.schema_manager.apply_schema()

        @app.task
        async def pay() -> None:
            raise ValueError("it costs 5 €")

        with app.open(), anyio.fail_after(LIMIT):
            job_id = pay.defer()
            await app.run_worker_async(
                wait=False, install_signal_handlers=False, shutdown_graceful_timeout=0
            )
            [job] = app.job_manager.list_jobs(id=job_id)
        admin.execute("DROP DATABASE latin")
    assert job.status == "failed"
    assert job.errors[-1]["error"].endswith(r"ValueError: it costs 5 \u20ac")


async def test_a_worker_claims_no_more_if_all_ends_are_refused(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture, ran: list[str]
) -> None:
    async with anyio.create_task_group() as group:
        with refused(dsn, FINISH, "P0001"):
            app.tasks["run"].batch_defer(*({"name": str(number)} for number in range(40)))
            group.start_soon(partial(app.run_worker_async, **OPTIONS))
            await until(lambda: caplog.text.count("job.end_refused") > MOST_REFUSED)
            await anyio.sleep(0.5)
            assert len(ran) < 40
        await until(lambda: query(ENDED, 40))
        group.cancel_scope.cancel()
    assert len(ran) == len(set(ran)) == 40


async def test_a_job_whose_progress_cannot_be_stored_runs_once(
    app: App, query: Query, dsn: str, until: Until, caplog: pytest.LogCaptureFixture, ran: list[str]
) -> None:
    async with anyio.create_task_group() as group:
        with psycopg.connect(dsn, autocommit=True) as owner:
            owner.execute("ALTER FUNCTION inturn.report_progress RENAME TO gone")
            app.tasks["run"].defer(name="one that tells its progress")
            group.start_soon(partial(app.run_worker_async, **OPTIONS))
            await until(lambda: caplog.text.count("next try") > 1)
            owner.execute("ALTER FUNCTION inturn.gone RENAME TO report_progress")
        await until(lambda: query(ENDED, 1))
        group.cancel_scope.cancel()
    assert len(ran) == 1


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize("code", ["55000", "54000", "0A000", "55006", "P0001", "ZZ999"])
async def test_a_call_that_is_refused_is_tried_again_until_it_succeeds(
    app: App,
    dsn: str,
    query: Query,
    until: Until,
    caplog: pytest.LogCaptureFixture,
    call: LiteralString,
    code: str,
) -> None:
    runs: list[int] = []

    @app.task(lock="lane")
    async def step(number: int) -> None:
        runs.append(number)

    def is_said() -> bool:
        errors = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        return any("strange" in text and "next try" in text for text in errors)

    async with anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, **OPTIONS))
        await until(lambda: query("SELECT FROM workers"))
        with refused(dsn, call, code):
            step.batch_defer({"number": 1}, {"number": 2})
            await until(is_said)
        await until(lambda: query("SELECT FROM finished_jobs HAVING count(*) = 2"))
        group.cancel_scope.cancel()
    assert runs == [1, 2]
    assert query("SELECT DISTINCT status::text FROM finished_jobs") == [("succeeded",)]


async def test_a_worker_with_a_grace_starts_when_its_call_is_no_longer_refused(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as group:
        with refused(dsn, "BEFORE INSERT ON inturn.workers FOR EACH ROW", "54000"):
            group.start_soon(partial(app.run_worker_async, db_grace=3600, **OPTIONS))
            await until(lambda: "strange" in caplog.text)
        await until(lambda: query("SELECT FROM workers"))
        group.cancel_scope.cancel()
    assert "database.away" in caplog.text


async def look_until(port: int, is_refused: bool) -> None:
    """Ask the worker until it says that a call is refused, or says so no more."""

    def says() -> bool:
        return "refuses a call" in ask("127.0.0.1", port, READY).text

    with anyio.fail_after(LIMIT):
        while await anyio.to_thread.run_sync(says) != is_refused:
            pass


async def test_ready_and_the_doctor_say_that_a_call_is_refused(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    port = free_port()

    @app.task
    async def step() -> None: ...

    async with anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, name="w", health_port=port, **OPTIONS))
        await until(lambda: query("SELECT FROM workers"))
        with refused(dsn, FINISH, "0A000"):
            step.defer()
            await look_until(port, True)
            await until(lambda: query("SELECT FROM worker_status WHERE trouble IS NOT NULL"))
            state, detail = judge_workers(app)
            assert state == "fail"
            assert detail.startswith("refused by the database, retrying: w")
        await look_until(port, False)
        await until(lambda: query("SELECT FROM worker_status WHERE trouble IS NULL"))
        assert judge_workers(app) == ("ok", "1 live")
        group.cancel_scope.cancel()
    assert query("SELECT status::text, attempts FROM finished_jobs") == [("succeeded", 1)]


CHORES = {
    "rescue": "rescue",
    "prepare history": "prepare_history",
    "reconcile lanes": "reconcile",
    "roll up history": "roll_up",
    "prune history": "prune_history",
    "prune progress": "prune_progress",
    "prune batches": "prune_batches",
}
# Calls that the worker makes beside its loop, and how the lines about each begin.
HELPERS = {
    "chores": {f"maintenance.failed: {name}: ": call for name, call in CHORES.items()},
    "judging": {"maintenance.failed: ": "last_heartbeats"},
    "schedules": {"schedule.lost: ": "schedule_progress"},
}
SIGNATURES = """
SELECT pg_get_functiondef(oid), format('CREATE OR REPLACE FUNCTION inturn.%%I(%%s) RETURNS %%s '
    'LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION $$strange$$ USING ERRCODE = $$54000$$; END $f$',
    proname, pg_get_function_arguments(oid), pg_get_function_result(oid))
FROM pg_proc WHERE pronamespace = 'inturn'::regnamespace AND proname = ANY (%s)
"""


@contextmanager
def broken(dsn: str, functions: Iterable[str]) -> Iterator[None]:
    """Let these functions raise an error that nobody has listed."""
    names = list(functions)
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(SIGNATURES, [names]).fetchall()
        assert len(found) == len(names)
        for _, raises in found:
            connection.execute(raises)
        yield
        for definition, _ in found:
            connection.execute(definition)


@pytest.mark.parametrize("helper", HELPERS)
async def test_what_the_worker_does_beside_is_tried_again_and_ready_says_so(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture, helper: str
) -> None:
    calls = HELPERS[helper]
    port = free_port()

    @app.periodic(cron="* * * * *")
    @app.task
    async def step(timestamp: int = 0) -> None: ...

    def said(start: str) -> bool:
        lines = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
        return any(line.startswith(start) and "strange" in line for line in lines)

    async with anyio.create_task_group() as group:
        with broken(dsn, calls.values()):
            group.start_soon(partial(app.run_worker_async, health_port=port, **OPTIONS))
            await until(lambda: all(said(start) for start in calls))
            await look_until(port, True)
            step.defer()
            await until(lambda: query("SELECT FROM finished_jobs"))  # jobs run meanwhile
        await look_until(port, False)
        group.cancel_scope.cancel()


async def test_the_listener_is_tried_again_and_ready_says_so(
    app: App, query: Query, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()

    async def refuse(_: object) -> None:
        raise ArithmeticError("strange")

    async with anyio.create_task_group() as group:
        with monkeypatch.context() as patch:
            patch.setattr(listener, "LOOK", 0.05)
            patch.setattr(listener, "_check", refuse)
            group.start_soon(partial(app.run_worker_async, health_port=port, **OPTIONS))
            await look_until(port, True)
        assert "listen.lost: strange" in caplog.text
        await look_until(port, False)
        group.cancel_scope.cancel()
    assert query("SELECT FROM workers") == []


async def test_a_publication_of_a_table_without_identity_is_survived(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def step() -> None: ...

    async with anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, **OPTIONS))
        await until(lambda: query("SELECT FROM workers"))
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("ALTER TABLE inturn.jobs REPLICA IDENTITY NOTHING")
            connection.execute("CREATE PUBLICATION everything FOR TABLE inturn.jobs")
            step.defer()
            await until(lambda: "database.refused" in caplog.text)
            connection.execute("DROP PUBLICATION everything")
        await until(lambda: query("SELECT FROM finished_jobs"))
        group.cancel_scope.cancel()
    assert query("SELECT status::text, attempts FROM finished_jobs") == [("succeeded", 1)]


def rename(server: psycopg.Connection, name: str, new_name: str) -> None:
    """Rename a database, to which nobody can connect meanwhile."""
    old, new = Identifier(name), Identifier(new_name)
    server.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(old))
    server.execute(END_SESSIONS, [name])
    server.execute(SQL("ALTER DATABASE {} RENAME TO {}").format(old, new))
    server.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(new))


async def test_a_database_that_is_made_again_has_its_workers(
    app: App, dsn: str, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[int] = []

    @app.task
    async def step() -> None:
        runs.append(1)

    name = str(conninfo_to_dict(dsn)["dbname"])
    caplog.set_level(logging.INFO)

    def ended() -> bool:
        with psycopg.connect(dsn) as connection:
            return bool(connection.execute("SELECT FROM inturn.finished_jobs").fetchall())

    with psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as server:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(app.run_worker_async, **OPTIONS))
            await until(lambda: "worker.started" in caplog.text)
            rename(server, name, f"{name}_kept")
            server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
            await until(lambda: "database.refused" in caplog.text)
            server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
            rename(server, f"{name}_kept", name)
            await until(lambda: "database.back" in caplog.text)
            step.defer()
            await until(ended)
            group.cancel_scope.cancel()
    assert runs == [1]


@pytest.mark.landing
def test_a_schema_of_another_version_ends_the_worker(worker: Start, dsn: str, query: Query) -> None:
    process = worker()
    wait_until(lambda: query("SELECT FROM workers"))
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE inturn.schema_version SET version_num = '0000_old'")
        connection.execute("ALTER FUNCTION inturn.next_wake RENAME TO next_wake_old")
        connection.execute("SELECT pg_notify('inturn', '')")
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 11, stderr
    assert "Bring it up to date" in stderr.splitlines()[-1]
