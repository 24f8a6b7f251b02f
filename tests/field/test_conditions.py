"""Defect B: errors that are conditions ended the worker."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from inturn import App, RetryStrategy
from inturn.errors import DatabaseUnavailable
from tests.conftest import Query, Until
from tests.field.conftest import Start
from tests.field.outage import outage

pytestmark = pytest.mark.anyio
LIMIT = 60.0  # seconds; only keeps a failing test from waiting for the poll
WORKER = (
    "SELECT FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'inturn worker'"
)
ASLEEP = (
    WORKER + " AND state = 'idle' AND query LIKE '%next_wake%'"
)  # its last look before it sleeps
HELD_UP = WORKER + " AND wait_event_type = 'Lock'"
END_WORKERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'inturn %'
"""


@contextmanager
def read_only(dsn: str, query: Query) -> Iterator[None]:
    """As the sessions of a demoted primary are, the new ones too."""
    database = Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    with psycopg.connect(
        dsn, autocommit=True, options="-c default_transaction_read_only=off"
    ) as connection:
        connection.execute(
            SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(database)
        )
        connection.execute(END_WORKERS)
        yield
        connection.execute(
            SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(database)
        )


@contextmanager
def another_column(dsn: str, query: Query) -> Iterator[None]:
    """As the next release may add: the result of claim has another shape."""
    with psycopg.connect(dsn, options="-c search_path=inturn") as connection:
        connection.execute("ALTER TABLE jobs ADD COLUMN later integer")
    yield


@contextmanager
def away(dsn: str, query: Query) -> Iterator[None]:
    with outage(dsn):
        yield


CONDITIONS = {"read only": read_only, "another column": another_column, "away": away}


@pytest.mark.landing
@pytest.mark.fresh_database
@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=list(CONDITIONS))
async def test_a_worker_goes_on_after_a_condition(
    app: App,
    dsn: str,
    query: Query,
    until: Until,
    condition: Callable[[str, Query], AbstractContextManager[None]],
) -> None:
    seen: list[int] = []

    @app.task(lock="lane")
    async def step(number: int) -> None:
        seen.append(number)

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True, fetch_job_polling_interval=1.0))
        step.defer(0)
        await until(lambda: seen == [0])
        with condition(dsn, query):
            await anyio.sleep(1.0)
        await until(lambda: try_to(lambda: step.defer(1)))
        await until(lambda: 1 in seen)
        group.cancel_scope.cancel()
    assert seen == [0, 1]


def try_to(action: Callable[[], object]) -> bool:
    try:
        action()
    except DatabaseUnavailable:
        return False
    return True


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_another_default_isolation_level_is_no_reason_to_end(
    app: App, dsn: str, query: Query, level: str
) -> None:
    seen: list[int] = []

    @app.task(lock="lane", retry=RetryStrategy(max_attempts=1))
    async def step(number: int) -> None:
        seen.append(number)
        if len(seen) == 1:
            raise ValueError

    database = Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            SQL("ALTER DATABASE {} SET default_transaction_isolation = {}").format(database, level)
        )
    step.batch_defer({"number": 0}, {"number": 1})
    with anyio.fail_after(120):
        await App.run_worker_async(app)
    assert seen == [0, 0, 1]
    app.lanes.pause("lane")
    assert app.job_manager.list_jobs() is not None


@pytest.mark.landing
@pytest.mark.fresh_database
def test_a_worker_that_loses_its_database_for_longer_than_its_grace_ends_with_69(
    worker: Start, app: App, dsn: str, query: Query
) -> None:
    process = worker("--db-grace", "1")
    deferred = app.configure_task("tests.field.field_app.stay", lock="lane").defer(seconds=60)
    while not query("SELECT FROM jobs WHERE id = %s AND status = 'doing'", deferred):
        pass
    with outage(dsn):
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 69, stderr
    assert "db_grace" in stderr.splitlines()[-1]


@pytest.mark.landing
@pytest.mark.fresh_database
def test_a_worker_that_starts_in_an_outage_waits_for_its_grace(
    worker: Start, dsn: str, query: Query
) -> None:
    with outage(dsn):
        process = worker("--db-grace", "60", "--one-shot")
        log = ""
        assert process.stderr is not None
        while log.count("database.away") < 3:
            line = process.stderr.readline()
            assert line, log
            log += line
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert "worker.stopped" in stderr


@pytest.mark.landing
@pytest.mark.fresh_database
@pytest.mark.parametrize(
    ("words", "text"), [([], "cannot be reached"), (["--db-grace", "0.5"], "db_grace")]
)
def test_a_worker_that_starts_in_an_outage_ends_with_69_at_once_or_after_its_grace(
    worker: Start, dsn: str, words: list[str], text: str
) -> None:
    with outage(dsn):
        process = worker(*words)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 69, stderr
    assert text in stderr.splitlines()[-1]
    assert words or "database.away" not in stderr


@pytest.mark.landing
@pytest.mark.fresh_database
def test_a_worker_that_waits_for_its_database_at_the_start_can_be_ended(
    worker: Start, dsn: str
) -> None:
    with outage(dsn):
        process = worker("--db-grace", "3600")
        assert process.stderr is not None
        assert "database.away" in process.stderr.readline()
        process.terminate()
        process.communicate(timeout=120)
    assert process.returncode == 143


@pytest.mark.landing
@pytest.mark.fresh_database
async def test_the_first_job_after_a_long_outage_starts_as_soon_as_after_a_short_one(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """The pause between two tries does not grow with the outage. It lasts at most a second."""
    caplog.set_level(logging.WARNING)
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        await until(lambda: query("SELECT FROM workers"))
        with outage(dsn):
            await until(lambda: caplog.text.count("database.lost") >= 7)
        group.cancel_scope.cancel()
    pauses = [
        float(line.rpartition("next try in ")[2].split()[0])
        for line in caplog.messages
        if "next try in" in line
    ]
    assert max(pauses) <= 1.0


@pytest.mark.fresh_database
async def test_an_outage_fills_no_log_and_its_end_is_logged_too(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "inturn.worker")

    def tries(event: str, level: int = logging.DEBUG) -> list[str]:
        records = [each for each in caplog.records if each.levelno >= level]
        said = [each.getMessage().partition("; next try") for each in records]
        return [text for text, _, _ in said if text.startswith(f"{event}: ")]

    threads = ("heartbeat.failed", "maintenance.failed")
    options: dict[str, Any] = {"update_heartbeat_interval": 0.1, "stalled_worker_timeout": 10.0}
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True, **options))
        await until(lambda: query("SELECT FROM workers"))
        with outage(dsn):
            await until(lambda: min(len(tries(event)) for event in threads) > 5)
        await until(lambda: tries("database.back"))
        group.cancel_scope.cancel()
    for event in threads:
        warned = tries(event, logging.WARNING)
        assert len(warned) == len(set(warned)) < len(tries(event))


async def test_a_job_that_came_while_a_table_was_locked_does_not_wait_for_the_poll(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    seen: list[str] = []

    @app.task(lock="lane")
    async def note(name: str) -> None:
        seen.append(name)

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(partial(app.run_worker_async, wait=True))
        note.defer("before")
        await until(lambda: query("SELECT FROM finished_jobs"))
        await until(lambda: query(ASLEEP))
        with psycopg.connect(dsn) as user:
            user.execute("LOCK TABLE inturn.lanes IN ACCESS EXCLUSIVE MODE")
            note.defer("meanwhile")
            await until(lambda: query(HELD_UP))  # it has been notified of the job,
            await until(lambda: not query(HELD_UP))  # ... and its claim was refused
        with anyio.move_on_after(LIMIT):
            await until(lambda: len(seen) > 1)
        group.cancel_scope.cancel()
    assert seen == ["before", "meanwhile"]


async def test_a_database_that_answers_and_takes_nothing_is_away_too(
    app: App, dsn: str, query: Query, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a worker would ask without a pause, and db_grace would never be over."""

    async def run_a_worker() -> None:
        with pytest.raises(BaseExceptionGroup) as raised:
            await app.run_worker_async(wait=True, db_grace=3.0)
        assert raised.group_contains(DatabaseUnavailable, match="db_grace")

    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(run_a_worker)
        await until(lambda: query("SELECT FROM workers"))
        with read_only(dsn, query):
            await until(lambda: "worker.failed" in caplog.text)
    assert caplog.text.count("database.lost") <= 12
