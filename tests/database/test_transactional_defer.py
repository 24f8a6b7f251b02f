"""A job exists if and only if the transaction commits, whether the app or the caller owns it."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from inturn import App
from inturn.errors import AppNotOpen, ConfigurationError

pytestmark = pytest.mark.anyio


@pytest.fixture
def app(app_dsn: str) -> Iterator[App]:
    app = App(app_dsn)
    app.task(name="note")(note)
    yield app
    app.close()


def note(text: str) -> None: ...


def deferred(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT count(*) FROM inturn.jobs").fetchone()
    assert row is not None
    return int(row[0])


def sync_engine(dsn: str) -> Any:
    return create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool
    )


def psycopg2_engine(dsn: str) -> Any:
    return create_engine(
        "postgresql+psycopg2://", creator=lambda: psycopg2.connect(dsn), poolclass=NullPool
    )


def asyncpg_options(dsn: str) -> dict[str, Any]:
    options = conninfo_to_dict(dsn)
    known = {"host", "port", "user", "password"}
    return {name: value for name, value in options.items() if name in known} | {
        "database": options["dbname"]
    }


def asyncpg_engine(dsn: str) -> Any:
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(**asyncpg_options(dsn)),
        poolclass=NullPool,
    )


def async_engine(dsn: str) -> Any:
    return create_async_engine(
        "postgresql+psycopg://",
        async_creator=lambda: psycopg.AsyncConnection.connect(dsn),
        poolclass=NullPool,
    )


async def own_sync(app: App, dsn: str, commit: bool) -> None:
    with app.open():
        app.tasks["note"].defer(text="x")


async def own_async(app: App, dsn: str, commit: bool) -> None:
    async with app.open_async():
        await app.tasks["note"].defer_async(text="x")


async def psycopg_sync(app: App, dsn: str, commit: bool) -> None:
    with psycopg.connect(dsn) as connection:
        app.tasks["note"].configure(connection=connection).defer(text="x")
        connection.commit() if commit else connection.rollback()


async def psycopg_async(app: App, dsn: str, commit: bool) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await app.tasks["note"].configure(connection=connection).defer_async(text="x")
        await (connection.commit() if commit else connection.rollback())


async def psycopg_autocommit_block(app: App, dsn: str, commit: bool) -> None:
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        connection.transaction(force_rollback=not commit),
    ):
        app.tasks["note"].configure(connection=connection).defer(text="x")


async def sqlalchemy_connection(app: App, dsn: str, commit: bool) -> None:
    with sync_engine(dsn).connect() as connection:
        app.tasks["note"].configure(connection=connection).defer(text="x")
        connection.commit() if commit else connection.rollback()


async def sqlalchemy_session(app: App, dsn: str, commit: bool) -> None:
    with Session(sync_engine(dsn)) as session:  # fresh: it has not even begun a transaction
        app.tasks["note"].configure(connection=session).defer(text="x")
        session.commit() if commit else session.rollback()


async def sqlalchemy_async_connection(app: App, dsn: str, commit: bool) -> None:
    async with async_engine(dsn).connect() as connection:
        await app.tasks["note"].configure(connection=connection).defer_async(text="x")
        await (connection.commit() if commit else connection.rollback())


async def sqlalchemy_async_session(app: App, dsn: str, commit: bool) -> None:
    async with AsyncSession(async_engine(dsn)) as session:
        await app.tasks["note"].configure(connection=session).defer_async(text="x")
        await (session.commit() if commit else session.rollback())


async def psycopg2_sync(app: App, dsn: str, commit: bool) -> None:
    with contextlib.closing(psycopg2.connect(dsn)) as connection:
        app.tasks["note"].configure(connection=connection).defer(text="x")
        connection.commit() if commit else connection.rollback()


async def sqlalchemy_psycopg2_connection(app: App, dsn: str, commit: bool) -> None:
    with psycopg2_engine(dsn).connect() as connection:
        app.tasks["note"].configure(connection=connection).defer(text="x")
        connection.commit() if commit else connection.rollback()


async def sqlalchemy_psycopg2_session(app: App, dsn: str, commit: bool) -> None:
    with Session(psycopg2_engine(dsn)) as session:
        app.tasks["note"].configure(connection=session).defer(text="x")
        session.commit() if commit else session.rollback()


async def asyncpg_transaction(app: App, dsn: str, commit: bool) -> None:
    connection = await asyncpg.connect(**asyncpg_options(dsn))
    transaction = connection.transaction()
    await transaction.start()
    await app.tasks["note"].configure(connection=connection).defer_async(text="x")
    await (transaction.commit() if commit else transaction.rollback())
    await connection.close()


async def asyncpg_pool(app: App, dsn: str, commit: bool) -> None:
    async with (
        asyncpg.create_pool(**asyncpg_options(dsn), min_size=1) as pool,
        pool.acquire() as connection,
    ):
        transaction = connection.transaction()
        await transaction.start()
        await app.tasks["note"].configure(connection=connection).defer_async(text="x")
        await (transaction.commit() if commit else transaction.rollback())


async def sqlalchemy_asyncpg_connection(app: App, dsn: str, commit: bool) -> None:
    async with asyncpg_engine(dsn).connect() as connection:
        await app.tasks["note"].configure(connection=connection).defer_async(text="x")
        await (connection.commit() if commit else connection.rollback())


async def sqlalchemy_asyncpg_session(app: App, dsn: str, commit: bool) -> None:
    async with AsyncSession(asyncpg_engine(dsn)) as session:
        await app.tasks["note"].configure(connection=session).defer_async(text="x")
        await (session.commit() if commit else session.rollback())


Owner = Callable[[App, str, bool], Awaitable[None]]
OWNERS: list[Owner] = [own_sync, own_async]
CALLERS: list[Owner] = [
    psycopg_sync,
    psycopg_async,
    psycopg_autocommit_block,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_async_connection,
    sqlalchemy_async_session,
    psycopg2_sync,
    sqlalchemy_psycopg2_connection,
    sqlalchemy_psycopg2_session,
    asyncpg_transaction,
    asyncpg_pool,
    sqlalchemy_asyncpg_connection,
    sqlalchemy_asyncpg_session,
]


@pytest.mark.parametrize("owner", OWNERS)
async def test_without_a_connection_the_job_is_there_when_defer_returns(
    app: App, dsn: str, owner: Owner
) -> None:
    await owner(app, dsn, True)
    assert deferred(dsn) == 1


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_job_in_the_callers_transaction_exists_if_and_only_if_the_caller_commits(
    app: App, dsn: str, caller: Owner, commit: bool
) -> None:
    await caller(app, dsn, commit)
    assert deferred(dsn) == (1 if commit else 0)


async def test_a_job_on_an_autocommit_connection_is_there_when_defer_returns(
    app: App, dsn: str
) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        app.tasks["note"].configure(connection=connection).defer(text="x")
        assert deferred(dsn) == 1


async def test_a_connection_of_another_kind_is_refused_by_name(app: App, dsn: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"connection is a str. Pass a psycopg, psycopg2 or asyncpg"
    ):
        app.tasks["note"].configure(connection="postgresql://…").defer(text="x")
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        with pytest.raises(ConfigurationError, match=r"is async.*Use defer_async"):
            app.tasks["note"].configure(connection=connection).defer(text="x")
    with (
        psycopg.connect(dsn) as sync_connection,
        pytest.raises(ConfigurationError, match=r"is sync.*Use defer with it"),
    ):
        await app.tasks["note"].configure(connection=sync_connection).defer_async(text="x")
    assert deferred(dsn) == 0


async def test_deferring_through_a_closed_app_says_how_to_open_it(app: App) -> None:
    with pytest.raises(AppNotOpen, match=r"with app\.open\(\)"):
        app.tasks["note"].defer(text="x")
    with pytest.raises(AppNotOpen, match=r"async with app\.open_async\(\)"):
        await app.tasks["note"].defer_async(text="x")


async def test_a_batch_is_deferred_in_its_order_and_as_a_whole(app: App, dsn: str) -> None:
    with app.open():
        ids = (
            app.tasks["note"]
            .configure(lock="lane")
            .batch_defer(*({"text": letter} for letter in "abc"))
        )
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT id, args ->> 'text', status::text FROM inturn.jobs ORDER BY id"
        ).fetchall()
    assert rows == [(ids[0], "a", "todo"), (ids[1], "b", "blocked"), (ids[2], "c", "blocked")]
    with app.open():
        assert app.tasks["note"].batch_defer() == []
