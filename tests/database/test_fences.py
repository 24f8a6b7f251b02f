"""Fences in user code refuse the late write of a paused worker."""

import threading
from typing import Any

import anyio
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from inturn import App, JobContext, check_fence, check_fence_async
from inturn.errors import BadArgument, StaleFence
from tests.conftest import FAST_TAKEOVER, Query, Until

pytestmark = pytest.mark.anyio


@pytest.mark.fresh_database
def test_a_lower_token_than_the_highest_seen_is_refused_and_its_transaction_cannot_commit(
    dsn: str,
) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE writes (token bigint)")
    for token, is_good in ((5, True), (5, True), (4, False), (7, True), (5, False), (2**62, True)):
        with psycopg.connect(dsn) as connection:
            connection.execute("INSERT INTO writes VALUES (%s)", [token])
            if is_good:
                check_fence(connection, "account", token)
                continue
            with pytest.raises(
                StaleFence, match=rf"^fence {token} is stale: account has seen a higher one"
            ):
                check_fence(connection, "account", token)
    with psycopg.connect(dsn) as connection:
        check_fence(connection, "another account", 1)
        assert connection.execute("SELECT token FROM writes").fetchall() == [
            (5,),
            (5,),
            (7,),
            (2**62,),
        ]


def test_a_check_that_is_rolled_back_was_never_made(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        check_fence(connection, "account", 9)
        connection.rollback()
        check_fence(connection, "account", 8)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT token FROM inturn.fences_seen").fetchall() == [(8,)]


async def test_async_connections_and_sessions_are_checked_as_well(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await check_fence_async(connection, "account", 5)
    engine = create_engine(dsn_of(dsn))
    with Session(engine) as session, pytest.raises(StaleFence):
        check_fence(session, "account", 4)
    with Session(engine) as session:
        check_fence(session, "account", 6)
        session.commit()
        assert session.execute(text("SELECT token FROM inturn.fences_seen")).scalar() == 6
    engine.dispose()


def dsn_of(dsn: str) -> Any:
    from sqlalchemy import URL

    given = psycopg.conninfo.conninfo_to_dict(dsn)
    return URL.create(
        "postgresql+psycopg", query={name: str(value) for name, value in given.items()}
    )


@pytest.mark.parametrize(
    ("resource", "token"),
    [
        ("", 1),
        ("x" * 1025, 1),
        ("a\0", 1),
        ("\ud800", 1),
        (5, 1),
        (None, 1),
        ("a", True),
        ("a", "1"),
        ("a", None),
        ("a", 2**63),
    ],
)
def test_an_invalid_resource_or_fence_is_refused(dsn: str, resource: Any, token: Any) -> None:
    with psycopg.connect(dsn) as connection, pytest.raises(BadArgument):
        check_fence(connection, resource, token)


@pytest.mark.fresh_database
async def test_the_late_write_of_a_paused_attempt_is_refused(
    app: App, dsn: str, query: Query, until: Until
) -> None:
    """The example of docs/exactly-once.md, with a store that is not the queue's connection."""
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE public.balance AS SELECT 0::bigint AS written_by")
    fences: list[int] = []
    refusals: list[int] = []

    @app.task(pass_context=True, lock="account:7")
    def pay(context: JobContext) -> None:
        fences.append(context.fence)
        if context.job.attempts == 0:  # paused before it writes; meanwhile it is taken for dead
            while not query("SELECT 1 FROM finished_jobs"):
                threading.Event().wait(0.005)
        try:
            with psycopg.connect(dsn) as connection:
                check_fence(connection, "account:7", context.fence)
                connection.execute("UPDATE public.balance SET written_by = %s", [context.fence])
        except StaleFence:
            refusals.append(context.fence)
            raise

    pay.defer()
    quick: dict[str, Any] = {"wait": True, "concurrency": 2, **FAST_TAKEOVER}
    async with app.open_async(), anyio.create_task_group() as group:
        group.start_soon(lambda: app.run_worker_async(**quick))
        await until(lambda: fences)
        query("DELETE FROM workers RETURNING 1")
        await until(lambda: refusals)
        group.cancel_scope.cancel()
    assert refusals == fences[:1]
    assert query("SELECT written_by FROM public.balance") == [(fences[1],)]
