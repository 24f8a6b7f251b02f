"""A session keeps one cursor for short calls, and nobody else's rows get mixed up with it."""

import anyio
import pytest

from inturn import App
from inturn.database import drive
from inturn.database.session import AsyncSession, Session
from inturn.errors import DatabaseUnavailable
from inturn.operations import Operation, Rows, Statement


def count_to(last: int) -> Operation[Rows]:
    rows = yield Statement("SELECT generate_series(1, %s)", (last,))
    return rows


def test_short_calls_share_a_cursor_and_a_large_result_is_let_go(app: App) -> None:
    with app.connector.connect() as session:
        cursor = session.kept_cursor()
        assert drive.run_on(cursor, count_to(2), "inturn") == [(1,), (2,)]
        assert session.kept_cursor() is cursor
        assert len(drive.run_on(cursor, count_to(drive.MOST_ROWS_KEPT + 1), "inturn")) > 1000
        assert cursor.pgresult is None
        assert drive.run_on(session.kept_cursor(), count_to(1), "inturn") == [(1,)]


@pytest.mark.anyio
async def test_the_same_in_an_event_loop(app: App) -> None:
    async with await app.connector.connect_async("command") as session:
        cursor = session.kept_cursor()
        assert await drive.run_on_async(cursor, count_to(2), "inturn") == [(1,), (2,)]
        assert session.kept_cursor() is cursor
        await drive.run_on_async(cursor, count_to(drive.MOST_ROWS_KEPT + 1), "inturn")
        assert cursor.pgresult is None
        again = session.kept_cursor()
        assert await drive.run_on_async(again, count_to(1), "inturn") == [(1,)]


def test_a_job_deferred_on_a_lent_connection_has_a_cursor_of_its_own(app: App) -> None:
    with app.connector.lend() as connection:
        assert isinstance(connection, Session)
        kept = connection.kept_cursor().execute("SELECT 'mine'")
        app.configure_task("t", connection=connection).defer()
        assert kept.fetchall() == [("mine",)]


def test_the_same_in_an_event_loop_for_a_lent_connection(app: App) -> None:
    async def lend() -> None:
        async with app.open_async(), app.connector.lend_async() as connection:
            assert isinstance(connection, AsyncSession)
            kept = await connection.kept_cursor().execute("SELECT 'mine'")
            await app.configure_task("t", connection=connection).defer_async()
            assert await kept.fetchall() == [("mine",)]

    anyio.run(lend)


def test_a_closed_connection_of_the_caller_is_reported_as_unavailable(app: App) -> None:
    connection = app.connector.connect()
    connection.close()
    with pytest.raises(DatabaseUnavailable):
        app.configure_task("t", connection=connection).defer()
    with pytest.raises(DatabaseUnavailable):
        drive.run_on(connection.kept_cursor(), count_to(1), "inturn")
