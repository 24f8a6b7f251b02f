"""The mover is killed, aborted or asleep, or a server crashes: no second home ever serves."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo

from inturn import App
from inturn.cells.connector import Cells
from inturn.cells.map_file import rewrite_home
from inturn.cells.move_gate import CellGate
from inturn.cells.move_servers import CannotMove, MoveOver, Raw
from inturn.cells.move_tables import list_tables
from inturn.cells.moving import STEPS
from inturn.errors import InturnError
from tests.cells.conftest import LOGICAL
from tests.cells.load import CELL, LANES, Load, make_cells, query
from tests.cells.moves import (
    BEFORE_CLOSE,
    LEFT,
    SCHEMA,
    Killed,
    call,
    finish,
    kill_after,
    make_move,
    serves,
    until,
    writes,
)
from tests.chaos.server import Server as CrashingServer
from tests.cli.calling import invoke


@pytest.mark.landing
@pytest.mark.parametrize("asleep", STEPS)
def test_a_mover_that_slept_through_an_abort_changes_nothing(
    cells: Cells, empty: list[str], asleep: str
) -> None:
    """It wakes before one of its steps, while another move is about to close the cell."""
    old, new = empty
    sleeper = make_move(cells, new)
    before = STEPS.index(asleep)
    token = None
    if before:
        until(sleeper, STEPS[before - 1])
        token = sleeper.open_token() if asleep in BEFORE_CLOSE else None
    if asleep in ("open", "clean"):
        finish(cells, new)
    else:
        make_move(cells, new).abort()
        until(make_move(cells, new), "wait")
    with suppress(MoveOver, CannotMove):
        sleeper.open_token = lambda: token  # type: ignore[method-assign]  # what it saw before
        getattr(sleeper, asleep)()
    assert serves(old) != serves(new)
    assert not (writes(old) and writes(new))
    finish(cells, new)
    assert (serves(old), serves(new)) == (False, True)
    assert query(old, LEFT) == query(new, LEFT) == [(0,)]


@pytest.mark.landing
def test_a_mover_that_slept_until_the_cell_was_closed_changes_nothing(
    cells: Cells, empty: list[str]
) -> None:
    old, new = empty
    sleeper = until(make_move(cells, new), "wait")
    token = sleeper.open_token()
    until(make_move(cells, new), "close")
    sleeper.open_token = lambda: token  # type: ignore[method-assign]  # what it saw before
    for step in (*BEFORE_CLOSE, "close"):
        with suppress(InturnError):
            getattr(sleeper, step)()
        assert not serves(old)
        assert not writes(new)
    finish(cells, new)


@pytest.mark.landing
def test_an_abort_that_slept_through_a_move_deletes_nothing(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps after each of its own steps, while another mover begins anew and finishes."""
    old, new = empty
    assert cells.file is not None
    for turn, sleeps_before in enumerate(("clean", "delete_copy", "drop_subscription")):
        old, new = empty[turn % 2], empty[1 - turn % 2]
        until(make_move(cells, new), "wait")
        abort = make_move(cells, new)
        victim = abort.new if sleeps_before == "drop_subscription" else abort
        done = getattr(victim, sleeps_before)

        def sleep(*given: object, done: Callable[..., object] = done, new: str = new) -> None:
            if given:  # within the transaction that holds the lock, nobody else can do anything
                with pytest.raises(Exception, match="Another `queue cells move` is working"):
                    make_move(cells, new).delete_copy()
            else:
                make_move(cells, new).abort()
                finish(cells, new)
            done(*given)

        monkeypatch.setattr(victim, sleeps_before, sleep)
        abort.abort()
        if sleeps_before == "drop_subscription":
            assert (serves(old), serves(new)) == (True, False)
        else:
            assert (serves(old), serves(new)) == (False, True)
            query(old, f"DROP SCHEMA {SCHEMA}_moved CASCADE")


@pytest.mark.landing
def test_a_mover_that_sleeps_in_the_gate_opens_it_again(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.operations.engine.moving.IDLE_SECONDS", 1)
    old, new = empty
    move = until(make_move(cells, new), "wait")
    shut = CellGate._shut

    def sleep(*given: object) -> None:
        query(old, "SELECT pg_sleep(1.5)")
        assert serves(old), "the server has ended the transaction"
        shut(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(CellGate, "_shut", sleep)
    with pytest.raises(Exception, match="idle-in-transaction"):
        move.close()
    assert (serves(old), serves(new)) == (True, False)
    make_move(cells, new).abort()


@pytest.mark.proof
def test_killed_after_each_step_and_run_again(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cells.file is not None
    load = Load(cells.file)
    with load.running():
        for turn, step in enumerate(STEPS):
            old, new = empty[turn % 2], empty[1 - turn % 2]
            move = make_move(cells, new)

            kill_after(move, step, monkeypatch)
            with pytest.raises(Killed):
                move.run(lambda step: None, lambda done, total: None)
            assert not (serves(old) and serves(new))
            finish(cells, new)
            assert (serves(old), serves(new)) == (False, True)
            assert query(old, LEFT) == query(new, LEFT) == [(0,)], step
            query(old, f"DROP SCHEMA {SCHEMA}_moved CASCADE")
    load.judge()


@pytest.mark.landing
def test_nothing_is_left_if_the_map_is_changed_by_hand(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mover was killed when the new home served. Nobody looks at the old server any more."""
    old, new = empty
    move = make_move(cells, new)
    kill_after(move, "open", monkeypatch)
    with pytest.raises(Killed):
        move.run(lambda step: None, lambda done, total: None)
    assert cells.file is not None
    rewrite_home(cells.file, CELL, new, "inturn")
    finish(cells, new)
    assert query(old, LEFT) == query(new, LEFT) == [(0,)]


@pytest.mark.parametrize("part", ["gate", "sequences", "shut"])
@pytest.mark.landing
def test_killed_within_the_gate_the_old_home_serves_on(
    cells: Cells, empty: list[str], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    move = until(make_move(cells, new), "wait")
    name = {"gate": "_await_copy", "sequences": "_complete_copy", "shut": "_shut"}[part]

    with monkeypatch.context() as patch:
        kill_after(CellGate, name, patch)
        with pytest.raises(Killed):
            move.close()
    assert (serves(old), serves(new)) == (True, False)
    assert not writes(new)
    finish(cells, new)
    assert (serves(old), serves(new)) == (False, True)


@pytest.mark.landing
def test_aborted_after_each_step(cells: Cells, empty: list[str]) -> None:
    assert cells.file is not None
    old, new = empty
    load = Load(cells.file)
    with load.running():
        for step in BEFORE_CLOSE:
            until(make_move(cells, new), step)
            assert (serves(old), serves(new)) == (True, False)
            make_move(cells, new).abort()
            assert query(old, LEFT) == query(new, LEFT) == [(0,)], step
            assert query(new, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'inturn%'") == []
        until(make_move(cells, new), "close")
        with pytest.raises(
            CannotMove, match=r"There is no way back now\. Finish the move: queue ce"
        ):
            make_move(cells, new).abort()
        finish(cells, new)
        with pytest.raises(CannotMove, match="has the schema inturn_01_moved, left when the cell"):
            make_move(cells, old).check()
    load.judge()
    assert load.refused == []


def lose_slot(dsn: str) -> None:
    """End the replication from a database that accepts no connections any more."""
    [(slot, pid)] = query(dsn, "SELECT slot_name, active_pid FROM pg_replication_slots")
    query(dsn, "SELECT pg_terminate_backend(%s, 60000)", pid)
    query(dsn, "SELECT pg_drop_replication_slot(%s)", slot)


def ask_as_clerk(file: Path, dsn: str) -> str:
    """Return what `queue cells adopt` asks a login that is no superuser."""
    text = file.read_text()
    query(dsn, "CREATE ROLE clerk LOGIN")
    file.write_text(text.replace("user=postgres", "user=clerk"))
    asked = invoke("cells", "adopt", "--cell", str(CELL), env={"INTURN_CELLS": str(file)}).stderr
    query(dsn, "DROP ROLE clerk")
    file.write_text(text)
    return asked


@pytest.mark.landing
@pytest.mark.parametrize("last", ["wait", "close"])
def test_if_the_old_server_is_lost_the_copy_is_adopted(
    cells: Cells, empty: list[str], last: str
) -> None:
    old, new = empty
    app = App(cells=cells.file)

    @app.task
    def pay() -> None: ...

    with app.open():
        first = [pay.configure(lock=LANES[0]).defer() for _ in range(3)]
        app.cell(CELL).run_worker(wait=False, install_signal_handlers=False, max_jobs=1)
        until(make_move(cells, new), last)
        assert cells.file is not None
        rewrite_home(cells.file, CELL, new, "inturn")
        adopt = ("cells", "adopt", "--cell", str(CELL), "--yes")
        refused = call(cells, *adopt)
        assert "answers, so it is not lost. Finish the move, or end it" in refused.stderr
        elsewhere = make_conninfo(old, dbname="postgres")
        query(elsewhere, "ALTER DATABASE cells_test ALLOW_CONNECTIONS false")
        refused = call(cells, *adopt)
        assert "still receives what the old home writes, so that is not lost" in refused.stderr
        lose_slot(elsewhere)
        asked = ask_as_clerk(cells.file, new)
        assert "that at an address that only superusers see in pg_subscription, so it" in asked
        done = call(cells, *adopt)
        assert done.returncode == 0, done.output
    with App(cells=cells.file).open() as later:
        second = later.configure_task(pay.name, lock=LANES[0]).defer()
        assert (second - max(first) >= 1024 * 10**9, second % 1024) == (True, CELL)
        app.cell(CELL).run_worker(wait=False, install_signal_handlers=False)
        assert later.job_manager.get_job_status(second) == "succeeded"
    fences = query(new, f"SELECT fence FROM {SCHEMA}.finished_jobs ORDER BY id")
    assert fences == sorted(set(fences)), "they rise"


@pytest.mark.landing
def test_the_new_home_opens_only_after_the_old_one_is_closed(
    cells: Cells, empty: list[str]
) -> None:
    old, new = empty
    move = until(make_move(cells, new), "wait")
    with pytest.raises(MoveOver, match="Cell 1 is not closed"):
        move.open()
    assert (serves(old), serves(new)) == (True, False)
    move.abort()


@pytest.mark.landing
def test_nobody_writes_any_table_while_the_gate_is_closed(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    move = until(make_move(cells, new), "wait")
    shut, tried = CellGate._shut, []

    def look(self: CellGate, gate: Raw, position: object) -> None:
        for table in list_tables():
            with pytest.raises(pg.LockNotAvailable):
                query(old, f"BEGIN; LOCK TABLE {SCHEMA}.{table} IN ROW EXCLUSIVE MODE NOWAIT")
            tried.append(table)
        shut(self, gate, position)

    monkeypatch.setattr(CellGate, "_shut", look)
    move.close()
    assert tried == list_tables()
    finish(cells, new)


@pytest.fixture
def crashing(bin_dir: Path | None) -> Iterator[list[CrashingServer]]:
    """Two servers that can be stopped without a shutdown."""
    with ExitStack() as ends:
        yield [
            ends.enter_context(CrashingServer(bin_dir=bin_dir, settings=LOGICAL)) for _ in range(2)
        ]


@pytest.mark.proof
@pytest.mark.parametrize("victim", [0, 1])
def test_a_server_that_crashes_in_the_middle_loses_nothing(
    crashing: list[CrashingServer], victim: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old or the new one, between the steps, and while the gate is closed."""
    old, new = (server.dsn for server in crashing)
    cells = make_cells(tmp_path, old)
    load = Load(tmp_path / "cells.toml")

    def crash() -> None:
        crashing[victim].stop("immediate")
        crashing[victim].start()

    with load.running():
        for step in ("slot", "copy", "wait"):
            until(make_move(cells, new), step)
            crash()
        move = make_move(cells, new)
        shut = CellGate._shut

        def crash_in_the_gate(self: CellGate, gate: Raw, position: object) -> None:
            shut(self, gate, position)
            crash()

        until(move, "wait")
        with monkeypatch.context() as patch, suppress(InturnError):
            patch.setattr(CellGate, "_shut", crash_in_the_gate)
            move.close()
        assert serves(old) != (move.find_closed() is not None)
        until(make_move(cells, new), "close")
        crash()
        finish(cells, new)
        crash()
    load.judge()
    assert (serves(old), serves(new)) == (False, True)
    assert query(old, LEFT) == query(new, LEFT) == [(0,)]
