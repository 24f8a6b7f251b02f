"""An app that was open while a cell moved finds it at its new home in each way."""

import asyncio
import logging
import re
import time
from contextlib import suppress
from threading import Event, Thread

import psycopg
import pytest

from inturn import App
from inturn.cells.connector import Cells
from inturn.database.connectors import PsycopgConnector
from inturn.errors import BadArgument, DatabaseBusy, JobCancelled, WrongCell
from tests.cells.load import CELL, CONNECTED, LANES, cells_of, name_again, query, working
from tests.cells.moves import call, finish, make_move, until
from tests.waiting import wait_until


def test_a_callers_connection_is_looked_at_again(cells: Cells, empty: list[str]) -> None:
    app = App(cells=cells.file)
    task = app.configure_task("free")
    with app.open(), psycopg.connect(empty[0]) as old, psycopg.connect(empty[1]) as new:

        def place(connection: psycopg.Connection) -> set[int]:
            jobs = [app.configure_task("free", connection=connection).defer() for _ in range(4)]
            connection.commit()
            return {job % 1024 for job in jobs}

        assert place(old) == {0, 1}
        with pytest.raises(BadArgument, match="no cell of this map"):
            place(new)
        finish(cells, empty[1])
        with pytest.raises(DatabaseBusy, match=r"cell 1 .* has just moved there. Repeat the trans"):
            app.configure_task("x", lock=LANES[0], connection=old).defer()
        old.rollback()
        assert place(old) == {0}
        assert place(new) == {CELL}
        task.defer()
        assert place(old) == {0}
        assert place(new) == {CELL}


def test_the_look_at_a_callers_database_says_nothing_about_the_map(
    app: App, homes: list[PsycopgConnector], empty_dsn: str
) -> None:
    wrong = PsycopgConnector(empty_dsn, schema="inturn_00")
    app = App(cells=[wrong, *homes[1:]])
    with app.open(), psycopg.connect(homes[0].dsn) as here:
        app.cell(0).configure_task("x", connection=here).defer()
        with pytest.raises(WrongCell, match="is not a cell yet"):
            app.cell(0).configure_task("x").defer()


def test_the_doctor_names_a_slot_that_keeps_wal(cells: Cells, empty: list[str]) -> None:
    def examine() -> str:
        done = call(cells, "doctor", COLUMNS="400")
        assert done.returncode in (0, 10), done.output
        return done.stdout

    until(make_move(cells, empty[1]), "slot")
    assert f"the move of cell {CELL} is interrupted, and the server keeps " in examine()
    assert "run queue cells move again, or end it with --abort" in examine()
    [(name,)] = query(empty[0], "SELECT pubname FROM pg_publication")
    query(empty[0], f"DROP PUBLICATION {name}")
    [(slot,)] = query(empty[0], "SELECT slot_name FROM pg_replication_slots")
    found = examine()
    assert f"a move has left its replication slot {slot} behind, and the server keeps " in found
    assert f"SELECT pg_drop_replication_slot('{slot}');" in found
    query(empty[0], f"SELECT pg_drop_replication_slot('{slot}')")
    assert "moves" not in examine()
    copy = "pg_16399_sync_16385_7712883477448213913"  # as PostgreSQL names that of a table's copy
    query(empty[0], f"SELECT pg_create_logical_replication_slot('{copy}', 'pgoutput')")
    assert f"has left its replication slot {copy} behind" in examine()
    query(empty[0], f"SELECT pg_drop_replication_slot('{copy}')")


def test_an_app_that_closes_leaves_no_connection_to_the_old_home(
    cells: Cells, empty: list[str]
) -> None:
    assert cells.file is not None
    map_file, app = cells.file, App(cells=cells.file)

    async def move() -> None:
        async with app.open_async():
            await app.cell(1).configure_task("unknown").defer_async()
            assert query(empty[0], CONNECTED) > [(0,)]
            name_again(map_file, empty[0])
            cells_of(app).reread()
        wait_until(lambda: query(empty[0], CONNECTED) == [(0,)])

    asyncio.run(move())


def test_results_arrive_at_once_after_a_move(cells: Cells, empty: list[str]) -> None:
    app = App(cells=cells.file)

    @app.task(name="quick", queue="quick")
    def quick() -> None: ...

    waiting = Event()

    def wait() -> None:  # keeps the listener's connection in use, from before the move
        waiting.set()
        with suppress(JobCancelled):
            never.result(timeout=120)

    def time_one() -> float:
        began = time.monotonic()
        quick.configure(lock=LANES[0]).defer().result(timeout=60)
        return time.monotonic() - began

    with app.open(), working(app, [], queues=["quick"]):
        never = app.configure_task("quick", lock=LANES[1], queue="nobody").defer()
        waiter = Thread(target=wait)
        waiter.start()
        assert waiting.wait(60)
        time_one()
        finish(cells, empty[1])
        time_one()
        assert min(time_one() for _ in range(3)) < 2, "not by the poll, every 5 s"
        app.job_manager.cancel_job_by_id(never)
        waiter.join()


def test_a_worker_says_that_its_cell_has_moved(
    cells: Cells, empty: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is told to migrate a schema that is elsewhere."""
    assert cells.file is not None
    app = App(cells=cells.file)

    @app.task
    def pay() -> None: ...

    with app.open(), working(app, []):
        pay.configure(lock=LANES[0]).defer().result(timeout=60)
        finish(cells, empty[1])
        pay.configure(lock=LANES[0]).defer().result(timeout=60)
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert said
    for each in said:
        assert re.search(rf": cell {CELL} \(.* (was moved to|has just moved there)", each), each
