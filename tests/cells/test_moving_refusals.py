"""What a move refuses, and what is refused during a move."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from inturn import App
from inturn.cells.connector import Cells
from inturn.cells.map_file import rewrite_home
from inturn.cells.move_servers import CannotMove, OldServer
from inturn.cells.moving import CellMove
from inturn.database import deadlines
from inturn.errors import ConfigurationError, DatabaseUnavailable, WrongCell
from inturn.operations.engine import moving
from inturn.schema.migrate import adopt_cell, migrate
from tests.cells.load import CELL, LANES, query, working
from tests.cells.moves import (
    LEFT,
    OLD_DAYS,
    SCHEMA,
    call,
    finish,
    make_move,
    refuse,
    serves,
    until,
)
from tests.cli.calling import invoke
from tests.waiting import wait_until

MOVER = f"""
CREATE ROLE mover LOGIN REPLICATION IN ROLE pg_monitor;
GRANT CREATE ON DATABASE cells_test TO mover;
ALTER SCHEMA {SCHEMA} OWNER TO mover;
DO $$ DECLARE name regclass; BEGIN
    FOR name IN SELECT oid FROM pg_class
        WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind IN ('r', 'p') LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO mover', name);
    END LOOP;
END $$
"""
ABOUT = "SELECT 150000, '{}', {}, 9"


def test_what_cannot_move_is_refused_with_the_remedy(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    assert "There are no cells here" in invoke("cells", "move", "1", "--to", new).stderr
    assert "A cell cannot move within a database" in refuse(cells, old, "--schema", "other")
    for option in ("--from", "--admin"):
        said = refuse(cells, new, option, "user=eve password=a b")
        assert f"{option} is not a PostgreSQL address" in said
    assert "--to is not a PostgreSQL address" in refuse(cells, "user=eve password=a b")
    query(new, f"CREATE SCHEMA {SCHEMA}")
    assert "already has a schema inturn_01. Name another database" in refuse(cells, new)
    query(new, f"DROP SCHEMA {SCHEMA}")
    query(old, f"INSERT INTO {SCHEMA}.granted_roles VALUES ('clerk', 'producer')")
    assert "lacks the roles clerk, which may use the cell. Create" in refuse(cells, new)
    query(old, f"DELETE FROM {SCHEMA}.granted_roles")
    query(old, f"UPDATE {SCHEMA}.schema_version SET version_num = '0000'")
    assert "is at revision 0000, and this version makes 0001" in refuse(cells, new)
    query(old, f"UPDATE {SCHEMA}.schema_version SET version_num = '0001'")
    query(old, f"UPDATE {SCHEMA}.cell SET home = 'elsewhere'")
    assert "is a copy: the cell was created in another database" in refuse(cells, new)
    query(old, f"UPDATE {SCHEMA}.cell SET home = {SCHEMA}.cell_home()")
    make_move(cells, new).check()
    monkeypatch.setattr(moving, "ABOUT_SERVER", ABOUT.format("replica", 9))
    assert "has wal_level = replica. Set wal_level = logical there, and" in refuse(cells, new)
    monkeypatch.setattr(moving, "ABOUT_SERVER", ABOUT.format("logical", 1))
    assert "no replication slots left for the move. Drop unused ones" in refuse(cells, new)
    monkeypatch.undo()
    monkeypatch.setattr(moving, "MAY_REPLICATE", "SELECT false")
    assert "cannot replicate. As a superuser there: ALTER ROLE … REPLICATION" in refuse(cells, new)
    monkeypatch.undo()
    monkeypatch.setattr(moving, "MAY_WATCH", "SELECT false")
    assert "--from leads to another database than " in refuse(cells, new, "--from", new)
    assert "cannot see its standbys. As a superuser there: GRANT pg_monitor" in refuse(cells, new)


@pytest.mark.landing
def test_another_encoding_is_refused(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    elsewhere = make_conninfo(new, dbname="latin")
    query(new, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        refused = refuse(cells, elsewhere)
    finally:
        query(new, "DROP DATABASE latin")
    assert "latin has the encoding LATIN1, and " in refused
    assert "has UTF8. Name a database with that: CREATE DATABASE … ENCODING 'UTF8'" in refused
    assert query(old, LEFT) == [(0,)]


def test_a_map_that_cannot_be_changed_is_refused_first(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    assert cells.file is not None
    text = cells.file.read_text()
    cells.file.write_text(text.replace("[0, 1]", "[0,  # first\n1]"))
    assert "cells.toml cannot be changed safely" in refuse(cells, new)
    cells.file.write_text(text)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cells.toml cannot be written: " in refuse(cells, new)
    assert query(old, LEFT) == [(0,)]


def test_a_login_that_does_not_own_all_is_refused_first(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    query(old, MOVER)
    try:
        words = refuse(cells, new, "--from", make_conninfo(old, user="mover"))
        assert "must own the cell's tables, may CREATE in the database, and has" in words
        assert "It lacks fences at " in words
    finally:
        query(old, "REASSIGN OWNED BY mover TO postgres; DROP OWNED BY mover; DROP ROLE mover")


def test_slots_that_are_used_up_in_the_middle_are_told_at_once(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = empty[1]
    until(make_move(cells, new), "schema")
    monkeypatch.setattr(moving, "ABOUT_SERVER", ABOUT.format("logical", 0))
    assert "has no replication slots left for the move. Drop" in refuse(cells, new)
    monkeypatch.undo()
    until(make_move(cells, new), "wait")
    monkeypatch.setattr(moving, "ABOUT_SERVER", ABOUT.format("logical", 0))
    make_move(cells, new).check()  # it needs no more
    make_move(cells, new).abort()


@pytest.mark.landing
def test_an_abort_tells_whether_there_was_a_copy(cells: Cells, empty: list[str]) -> None:
    until(make_move(cells, empty[1]), "schema")
    words = ("cells", "move", str(CELL), "--to", empty[1], "--abort", "--yes")
    for told in ("the copy is deleted", "there is no copy at "):
        done = call(cells, *words)
        assert (done.returncode, told in done.stdout) == (0, True), done.output


@pytest.mark.landing
def test_a_move_to_another_place_waits_for_the_end_of_the_first(
    cells: Cells, empty: list[str]
) -> None:
    old, new = empty
    until(make_move(cells, new), "slot")
    query(new, "CREATE DATABASE elsewhere")
    try:
        words = refuse(cells, make_conninfo(new, dbname="elsewhere"))
        assert "Cell 1 is being moved to" in words
        assert "Finish that, or end it: queue cells move 1 --to … --abort" in words
        wrong = ("--abort", "--yes")
        assert "being moved to" in refuse(cells, make_conninfo(new, dbname="elsewhere"), *wrong)
        assert query(old, LEFT) == [(2,)]
        assert refuse(cells, new, "--abort"), "it asks first"
        done = call(cells, "cells", "move", str(CELL), "--to", new, "--abort", "--yes")
        assert done.returncode == 0, done.output
        assert f"cell {CELL} stays at " in done.stdout
        assert query(old, LEFT) == [(0,)]
    finally:
        query(new, "DROP DATABASE elsewhere WITH (FORCE)")


@pytest.mark.landing
def test_nothing_else_changes_a_cell_that_moves(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    assert cells.file is not None
    assert query(old, OLD_DAYS) == [(3,)]
    move = until(make_move(cells, new), "wait")
    for dsn in empty:
        with pytest.raises(ConfigurationError, match=r"is being moved\. Finish that first, or"):
            migrate(dsn, SCHEMA)
    with pytest.raises(ConfigurationError, match="being moved"):
        adopt_cell(new, SCHEMA)
    query(old, f"DROP TABLE {SCHEMA}.finished_jobs_{_day(old)}")
    assert query(old, f"SELECT {SCHEMA}.prepare_history(3)") == [(None,)]
    assert query(old, f"SELECT {SCHEMA}.prune_history('1 day')") == [(None,)]
    until(move, "close")
    with pytest.raises(ConfigurationError, match=r"was moved to .* Name its new home in the map"):
        migrate(old, SCHEMA)
    app = App(cells=cells.file)
    with app.open(), pytest.raises(DatabaseUnavailable, match=r"was moved to .*Name that home in"):
        app.cell(CELL).job_manager.list_queues()
    finish(cells, new)


def _day(dsn: str) -> str:
    [(day,)] = query(dsn, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')")
    return str(day)


def close_and_measure(move: CellMove, old: str) -> None:
    """Close the cell beside a producer, who does not wait for something that cannot succeed."""
    longest, tries = 1.0, 0
    error: BaseException | None = None
    while longest >= 0.7 and tries < 3:  # the machine may stall
        longest, tries = 0.0, tries + 1
        with ThreadPoolExecutor() as threads:
            closing = threads.submit(move.close)
            while not closing.done():
                before = time.monotonic()
                query(old, f"SELECT {SCHEMA}.defer('t')")
                longest = max(longest, time.monotonic() - before)
        error = closing.exception()
    assert longest < 0.7
    assert error is not None
    raise error


@pytest.mark.landing
def test_a_long_transaction_is_named(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cells.move_gate.TRY_SECONDS", 2)
    old, new = empty
    move = until(make_move(cells, new), "wait")
    with psycopg.connect(old, application_name="report") as blocker:
        blocker.execute(f"SELECT {SCHEMA}.defer('late')".encode())
        time.sleep(1.1)
        with pytest.raises(CannotMove, match=r"Long transactions: \d+ \(report\). End them, and"):
            close_and_measure(move, old)
    monkeypatch.undo()
    finish(cells, new)
    assert query(new, f"SELECT count(*) FROM {SCHEMA}.jobs WHERE task = 'late'") == [(1,)]


@pytest.mark.landing
def test_the_old_home_is_not_closed_before_the_copy_has_everything(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cells.move_gate.CATCH_UP_SECONDS", 1)
    monkeypatch.setattr("inturn.cells.move_gate.TRY_SECONDS", 0.1)
    old, new = empty
    move = until(make_move(cells, new), "wait")
    with psycopg.connect(new) as blocker:
        blocker.execute(f"LOCK TABLE {SCHEMA}.jobs IN ACCESS EXCLUSIVE MODE".encode())
        query(old, f"SELECT {SCHEMA}.defer('late')")
        with pytest.raises(CannotMove, match=r"did not catch up within 1 s\. Long"):
            close_and_measure(move, old)
        assert serves(old)
    monkeypatch.undo()
    finish(cells, new)
    assert query(new, f"SELECT count(*) FROM {SCHEMA}.jobs WHERE task = 'late'") == [(1,)]


@pytest.mark.landing
def test_changes_that_cannot_be_applied_are_told(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cells.move_gate.CATCH_UP_SECONDS", 1)
    monkeypatch.setattr("inturn.cells.move_gate.TRY_SECONDS", 0.1)
    old, new = empty
    move = until(make_move(cells, new), "wait")
    query(old, f"ALTER TABLE {SCHEMA}.jobs ADD COLUMN mine integer")
    query(old, f"SELECT {SCHEMA}.defer('t')")
    wait_until(
        lambda: query(new, "SELECT sum(apply_error_count) > 0 FROM pg_stat_subscription_stats")
    )
    with pytest.raises(CannotMove, match=r"and failed \d+ times to apply it. Its log says why"):
        close_and_measure(move, old)
    move.abort()


@pytest.mark.landing
@pytest.mark.parametrize("table", ["finished_jobs", "jobs", "limits"])
def test_a_copy_that_lacks_a_row_is_refused(cells: Cells, empty: list[str], table: str) -> None:
    old, new = empty
    assert cells.file is not None
    app = App(cells=cells.file)
    with app.open():
        app.configure_task("t", queue="others", lock=LANES[0]).defer()
        app.task(name="pay")(lambda: None).configure(lock=LANES[1]).defer()
        app.cell(CELL).limits.set("stripe", concurrency=4)
        app.cell(CELL).run_worker(wait=False, install_signal_handlers=False, queues=["default"])
    move = until(make_move(cells, new), "wait")
    query(new, f"SET session_replication_role = replica; DELETE FROM {SCHEMA}.{table}")
    with pytest.raises(CannotMove, match=f"These tables differ: {table}. Did that server fail"):
        move.close()
    assert (serves(old), serves(new)) == (True, False)
    move.abort()
    finish(cells, new)


@pytest.mark.landing
def test_a_worker_whose_map_is_a_list_ends_with_the_new_home(
    cells: Cells, empty: list[str]
) -> None:
    old, new = empty
    app = App(cells=[old, old])
    ended: list[BaseException] = []
    with working(app, ended) as worker:
        wait_until(lambda: query(old, f"SELECT id FROM {SCHEMA}.workers"))
        finish(cells, new)
        worker.join(30)
        assert len(ended) == 1
    assert isinstance(ended[0], WrongCell)
    assert "was moved to" in str(ended[0])
    assert "Name that home in the list of cells, and restart" in str(ended[0])


@pytest.mark.landing
def test_a_slot_that_is_left_is_told_and_the_map_is_new(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    assert cells.file is not None

    def clean(move: CellMove) -> None:
        raise CannotMove("slot_1 is in use")

    monkeypatch.setattr(CellMove, "clean", clean)
    done = call(cells, "cells", "move", str(CELL), "--to", new)
    assert (done.returncode, "is left: slot_1 is in use" in done.stderr) == (0, True), done.output
    assert new in cells.file.read_text()
    OldServer(old, SCHEMA).drop_dead_slots("inturn_move_")
    again = call(cells, "cells", "move", str(CELL), "--to", new)
    assert again.stdout.startswith(f"cell {CELL} is at "), again.output


@pytest.mark.landing
def test_a_map_that_names_the_new_home_too_early_is_refused(cells: Cells, empty: list[str]) -> None:
    new = empty[1]
    until(make_move(cells, new), "wait")
    assert cells.file is not None
    text = cells.file.read_text()
    rewrite_home(cells.file, CELL, new, "inturn")
    assert "is a copy: the cell was created in another database" in refuse(cells, new)
    cells.file.write_text(text)
    make_move(cells, new).abort()


@pytest.mark.landing
def test_a_map_in_the_code_is_told_what_to_change(
    cells: Cells, empty: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    (tmp_path / "listed.py").write_text(f"import inturn\napp = inturn.App(cells=[{old!r}] * 2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):  # the list is still old
        done = invoke("-a", "listed:app", "cells", "move", str(CELL), "--to", new)
        assert f"Name {make_move(cells, new).to} there as cell {CELL}" in done.stderr
    assert serves(new)


@pytest.mark.landing
def test_an_address_that_the_new_server_cannot_reach_is_told(
    cells: Cells, empty: list[str]
) -> None:
    old, new = empty
    parts = conninfo_to_dict(old)
    words = ("cells", "move", str(CELL), "--to", new, "--from", "user=postgres dbname=cells_test")
    # The new server does not have this environment.
    refused = call(cells, *words, PGHOST=str(parts["host"]), PGPORT="5432")
    assert "cannot reach local:5432/cells_test: " in refused.stderr
    assert "that both you and the new server reach: --from" in refused.stderr
    make_move(cells, new).abort()
    assert query(empty[0], LEFT) == query(new, LEFT) == [(0,)]


@pytest.mark.landing
def test_an_old_server_that_never_answers_the_new_one_is_told(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = "SET LOCAL statement_timeout = '1s'"
    monkeypatch.setattr("inturn.cells.move_servers.WITHIN_SECONDS", short)
    move = until(make_move(cells, empty[1]), "schema")
    token = move.open_token()
    assert token is not None
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = {"host": "127.0.0.1", "port": silent.getsockname()[1]}
        dsn = make_conninfo(empty[0], **address)
        with (
            pytest.raises(CannotMove, match="due to statement timeout"),
            move.new.guarded(token) as new,
        ):
            move.new.subscribe(new, token, f"{token}_1", dsn)
    move.abort()


@pytest.mark.landing
def test_a_table_that_cannot_be_copied_ends_the_wait(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.cells.moving.STALLED_SECONDS", 1)
    new = empty[1]
    move = until(make_move(cells, new), "schema")
    for dsn in empty:
        role = f"INSERT INTO {SCHEMA}.granted_roles VALUES ('clerk', 'producer')"
        query(dsn, f"SET session_replication_role = replica; {role}")
    move.copy()
    with pytest.raises(CannotMove, match=r"does not copy from .* Its log says why"):
        move.wait()
    make_move(cells, new).abort()


def test_an_abort_without_the_new_server_tells_what_is_left(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(move: CellMove) -> None:
        raise DatabaseUnavailable("it is gone", outcome_unknown=False)

    until(make_move(cells, empty[1]), "slot")
    monkeypatch.setattr(CellMove, "delete_copy", lose)
    with pytest.raises(CannotMove, match="named pg_%_sync_%"):
        make_move(cells, empty[1]).abort()
    monkeypatch.undo()
    make_move(cells, empty[1]).abort()
    assert query(empty[0], LEFT) == [(0,)]


def test_a_pooler_between_is_refused(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would lose our settings, or give them to others."""
    monkeypatch.setattr(deadlines, "SETTLE", "SELECT %s = 0")
    assert "is behind a pooler. Give the server's own address: --from, or in" in refuse(
        cells, empty[1]
    )
