"""Operations on connections of psycopg 2 and asyncpg: all values, all errors, both sides."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from inturn import App, check_fence, check_fence_async
from inturn.errors import (
    AlreadyEnqueued,
    ConfigurationError,
    ConnectorException,
    DatabaseBusy,
    DatabaseUnavailable,
    SchemaMismatch,
    StaleFence,
)
from tests.database.test_transactional_defer import asyncpg_options

pytestmark = pytest.mark.anyio
AT = datetime(2040, 1, 2, 3, 4, 5, 678901, UTC)
AWKWARD = "100% of 'it' costs $1, %s or %b \\ \u20ac"
OPTIONS: dict[str, Any] = {
    "queue": "q",
    "lock": AWKWARD,
    "priority": -7,
    "on_retry": "release",
    "on_failure": "halt",
    "timeout": 1.5,
    "schedule_at": AT,
}
STORED = """
SELECT args ->> 'text', queue, lock, priority, on_retry::text, on_failure::text, timeout,
    scheduled_at, queueing_lock
FROM inturn.jobs ORDER BY id
"""


@pytest.fixture
def app(app_dsn: str) -> App:
    app = App(app_dsn)
    app.task(name="note")(note)
    return app


def note(text: str) -> None: ...


@pytest.fixture
def old(dsn: str) -> Iterator[Any]:
    """A connection of psycopg 2 whose rows are dicts, unless a cursor says otherwise."""
    factory = psycopg2.extras.RealDictCursor
    with contextlib.closing(psycopg2.connect(dsn, cursor_factory=factory)) as connection:
        yield connection


@pytest.fixture
async def fast(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(**asyncpg_options(dsn))
    yield connection
    if not connection.is_closed():
        await connection.close()


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(**asyncpg_options(dsn)),
        poolclass=NullPool,
    )
    async with AsyncSession(engine) as session:
        yield session


def test_psycopg2_stores_every_option_as_psycopg_does(
    app: App, old: Any, dsn: str, query: Any
) -> None:
    jobs = app.tasks["note"].configure(connection=old, **OPTIONS)
    jobs.defer(text=AWKWARD)
    jobs.batch_defer({"text": "a"}, {"text": AWKWARD})
    once = {"queueing_lock": AWKWARD, "on_conflict": "skip", "connection": old}
    first = app.tasks["note"].configure(**once).defer(text="c")
    assert first.is_new
    assert app.tasks["note"].configure(**once).defer(text="d") == first
    old.commit()
    assert query(STORED) == EXPECTED


async def test_asyncpg_stores_every_option_as_psycopg_does(app: App, fast: Any, query: Any) -> None:
    await store_all(app, fast)
    assert query(STORED) == EXPECTED


async def test_sqlalchemy_on_asyncpg_stores_every_option_as_psycopg_does(
    app: App, session: AsyncSession, query: Any
) -> None:
    await store_all(app, session)
    await session.commit()
    assert query(STORED) == EXPECTED


async def store_all(app: App, connection: object) -> None:
    jobs = app.tasks["note"].configure(connection=connection, **OPTIONS)
    await jobs.defer_async(text=AWKWARD)
    await jobs.batch_defer_async({"text": "a"}, {"text": AWKWARD})
    once: Any = {"queueing_lock": AWKWARD, "on_conflict": "skip", "connection": connection}
    first = await app.tasks["note"].configure(**once).defer_async(text="c")
    assert first.is_new
    assert await app.tasks["note"].configure(**once).defer_async(text="d") == first


_REST = ("q", AWKWARD, -7, "release", "halt", timedelta(seconds=1.5), AT, None)
_LAST = ("c", "default", None, 0, "hold", "continue", None, None, AWKWARD)
EXPECTED = [*((text, *_REST) for text in (AWKWARD, "a", AWKWARD)), _LAST]


def test_a_conflict_leaves_the_transaction_of_psycopg2_intact(
    app: App, old: Any, query: Any
) -> None:
    jobs = app.tasks["note"].configure(connection=old, queueing_lock="one")
    waiting = jobs.defer(text="a")
    with pytest.raises(AlreadyEnqueued) as conflict:
        jobs.defer(text="b")
    assert conflict.value.job_id == waiting
    old.commit()
    assert query("SELECT count(*) FROM inturn.jobs") == [(1,)]


async def test_jobs_are_looked_at_and_cancelled_in_the_callers_transaction(
    app: App, fast: Any, query: Any
) -> None:
    async with fast.transaction():
        job = await app.tasks["note"].configure(connection=fast).defer_async(text="a")
        assert await app.job_manager.get_job_status_async(job, connection=fast) == "todo"
        assert await app.job_manager.cancel_job_by_id_async(job, connection=fast)
    assert query("SELECT status::text FROM inturn.all_jobs") == [("cancelled",)]


@pytest.mark.fresh_database
async def test_an_error_of_your_trigger_is_not_taken_for_one_of_ours(
    app: App, old: Any, fast: Any, dsn: str
) -> None:
    with psycopg.connect(dsn) as owner:
        owner.execute(
            "CREATE FUNCTION public.check_job() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'quota: too many' USING ERRCODE = 'invalid_parameter_value'; END $$;"
            "CREATE TRIGGER check_job BEFORE INSERT ON inturn.jobs "
            "FOR EACH ROW EXECUTE FUNCTION public.check_job()"
        )
    note = app.tasks["note"]
    with pytest.raises(ConnectorException, match="refused: quota: too many"):
        note.configure(connection=old).defer(text="a")
    with pytest.raises(ConnectorException, match="refused: quota: too many"):
        await note.configure(connection=fast).defer_async(text="a")


async def test_a_fence_is_checked_on_these_drivers_too(old: Any, fast: Any) -> None:
    check_fence(old, "account", 5)
    old.commit()
    await check_fence_async(fast, "account", 6)
    with pytest.raises(StaleFence):
        check_fence(old, "account", 5)
    with pytest.raises(StaleFence):
        await check_fence_async(fast, "account", 5)


async def test_a_lock_that_is_not_free_is_reported_as_busy(
    app: App, old: Any, fast: Any, session: AsyncSession, dsn: str
) -> None:
    with old.cursor() as cursor:
        cursor.execute("SET lock_timeout = '10ms'")
        old.commit()
    await fast.execute("SET lock_timeout = '10ms'")
    await (await session.connection()).exec_driver_sql("SET lock_timeout = '10ms'")
    task = app.tasks["note"]
    with psycopg.connect(dsn) as blocker:
        blocker.execute("LOCK inturn.jobs")
        with pytest.raises(DatabaseBusy, match="lock timeout"):
            task.configure(connection=old).defer(text="x")
        with pytest.raises(DatabaseBusy, match="lock timeout"):
            await task.configure(connection=fast).defer_async(text="x")
        with pytest.raises(DatabaseBusy, match="lock timeout"):
            await task.configure(connection=session).defer_async(text="x")
    old.rollback()
    await session.rollback()
    # The connections are fine.
    task.configure(connection=old).defer(text="x")
    await task.configure(connection=fast).defer_async(text="x")
    await task.configure(connection=session).defer_async(text="x")


async def test_a_lost_connection_is_reported_as_such(
    app: App, old: Any, fast: Any, session: AsyncSession, dsn: str
) -> None:
    connection = await session.connection()
    own = (await connection.exec_driver_sql("SELECT pg_backend_pid()")).scalar_one()
    pids = [old.info.backend_pid, fast.get_server_pid(), own]
    with psycopg.connect(dsn, autocommit=True) as killer:
        killer.execute("SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s) AS pid", [pids])
    task = app.tasks["note"]
    for _ in range(2):  # and once more on a connection that is known to be closed
        with pytest.raises(DatabaseUnavailable) as lost:
            task.configure(connection=old).defer(text="x")
        assert lost.value.connection_lost
        with pytest.raises(DatabaseUnavailable) as lost:
            await task.configure(connection=fast).defer_async(text="x")
        assert lost.value.connection_lost
    with pytest.raises(DatabaseUnavailable) as lost:
        await task.configure(connection=session).defer_async(text="x")
    assert lost.value.connection_lost
    await session.invalidate()


async def test_a_missing_schema_is_named_as_on_psycopg(empty_dsn: str, app: App) -> None:
    task = app.tasks["note"]
    with (
        contextlib.closing(psycopg2.connect(empty_dsn)) as old,
        pytest.raises(SchemaMismatch, match="queue migrate"),
    ):
        task.configure(connection=old).defer(text="x")
    fast = await asyncpg.connect(**asyncpg_options(empty_dsn))
    with pytest.raises(SchemaMismatch, match="queue migrate"):
        await task.configure(connection=fast).defer_async(text="x")
    await fast.close()


async def test_the_wrong_side_is_refused_by_name(app: App, old: Any, fast: Any) -> None:
    task = app.tasks["note"]
    with pytest.raises(ConfigurationError, match=r"is sync \(psycopg2.*Use defer with it"):
        await task.configure(connection=old).defer_async(text="x")
    with pytest.raises(ConfigurationError, match=r"is async \(asyncpg.*Use defer_async"):
        task.configure(connection=fast).defer(text="x")
