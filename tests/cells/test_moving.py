"""A cell moves to another server while it works, and no second home ever serves it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo

from inturn import App
from inturn.cells.connector import Cells
from inturn.cells.map_file import rewrite_home
from inturn.cells.move_servers import CannotMove, MoveOver, Raw
from inturn.cells.moving import STEPS, Move
from inturn.errors import ConfigurationError, DatabaseUnavailable, InturnError, WrongCell
from inturn.operations.engine import moving
from inturn.schema.migrate import adopt_cell, migrate
from tests.cells.conftest import LOGICAL
from tests.cells.load import CELL, LANES, Load, make_cells, query, working
from tests.chaos.server import Server as CrashingServer
from tests.cli.calling import invoke
from tests.waiting import wait_until

SCHEMA = f"inturn_{CELL:02}"
LEFT = """
SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_replication_slots
    WHERE database = current_database()) + (SELECT count(*) FROM pg_subscription
    JOIN pg_database ON pg_database.oid = subdbid WHERE datname = current_database())
"""
HOMES = f"SELECT count(*) FROM {SCHEMA}.cell WHERE home = {SCHEMA}.cell_home()"
ABOUT = "SELECT 150000, '{}', {}, 9, '1'"
BEFORE_CLOSE = STEPS[: STEPS.index("close")]


@pytest.fixture
def cells(empty: list[str], tmp_path: Path) -> Cells:
    return make_cells(tmp_path, empty[0])


def make_move(cells: Cells, to: str) -> Move:
    """Return a mover that knows nothing of earlier ones."""
    assert cells.file is not None
    return Move(Cells(cells.file).homes[CELL], to)


def until(move: Move, last: str) -> None:
    """Do the steps up to this one, like a mover that is then killed."""
    for step in STEPS[: STEPS.index(last) + 1]:
        getattr(move, step)()


def finish(cells: Cells, to: str) -> None:
    move = make_move(cells, to)
    move.run(lambda step: None, lambda done, total: None)
    assert cells.file is not None
    rewrite_home(cells.file, CELL, to, "inturn")


def serves(dsn: str) -> bool:
    """Return True if the database is the cell's home, and accepts jobs."""
    try:
        if query(dsn, HOMES) != [(1,)]:
            return False
        query(dsn, f"SELECT {SCHEMA}.defer('probe', queue => 'probes')")
    except (pg.InvalidSchemaName, pg.UndefinedTable):
        return False
    return True


def writes(dsn: str, schema: str = SCHEMA) -> bool:
    """Return True if a process that checks nothing could store a job."""
    try:
        query(
            dsn, f"INSERT INTO {schema}.jobs (status, task, created_at) VALUES ('todo', 't', now())"
        )
    except (pg.InvalidSchemaName, pg.UndefinedTable):
        return False
    return True


def test_a_cell_moves_with_all_it_has(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    assert cells.file is not None
    app = App(cells=cells.file)

    @app.task
    def pay() -> None: ...

    with app.open():
        first = pay.configure(lock=LANES[0]).defer()
        app.cell(CELL).limits.set("stripe", concurrency=4)
        app.cell(CELL).queues.pause("mail")
        app.cell(CELL).run_worker(wait=False, install_signal_handlers=False)
        fence = query(old, f"SELECT max(fence) FROM {SCHEMA}.finished_jobs")[0][0]
        assert (
            invoke("cells", "move", str(CELL), "--to", new, env={"INTURN_CELLS": str(cells.file)})
            .stdout.splitlines()[-1]
            .startswith(f"cell {CELL} is at ")
        )
        assert app.job_manager.get_job_status(first) == "succeeded"
        second = pay.configure(lock=LANES[0]).defer()
        assert second > first
        assert second % 1024 == CELL
        app.cell(CELL).run_worker(wait=False, install_signal_handlers=False)
        assert app.job_manager.get_job_status(second) == "succeeded"
        assert [limit.pattern for limit in app.cell(CELL).limits.list()] == ["stripe"]
        assert [paused.queue for paused in app.cell(CELL).queues.list_paused()] == ["mail"]
        assert app.verify().is_kept
    newest = query(new, f"SELECT max(fence) FROM {SCHEMA}.finished_jobs")[0][0]
    assert newest >> 56 == (fence >> 56) + 1, "a new generation of fences"
    assert (serves(old), serves(new)) == (False, True)
    assert not writes(old, f"{SCHEMA}_moved")
    assert query(old, LEFT) == query(new, LEFT) == [(0,)]
    text = cells.file.read_text()
    assert text.startswith("# Two cells. Ask ops before you change this.\n")
    assert "cells = [0]\n" in text
    assert "# the shop" in text


@pytest.mark.landing
def test_it_moves_while_a_producer_and_a_worker_run(cells: Cells, empty: list[str]) -> None:
    assert cells.file is not None
    load = Load(cells.file)
    with load.running():
        finish(cells, empty[1])
        after = len(load.runs)
        query(empty[0], f"DROP SCHEMA {SCHEMA}_moved CASCADE")
        finish(cells, empty[0])
    load.judge()
    assert len(load.runs) > after
    assert load.refused == []
    assert (serves(empty[0]), serves(empty[1])) == (True, False)


class Killed(BaseException):
    """The mover is killed."""


def kill_after(move: Move, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = getattr(move, name)

    def killed(*given: object) -> None:
        done(*given)
        raise Killed

    monkeypatch.setattr(move, name, killed)


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


@pytest.mark.parametrize("part", ["gate", "sequences", "shut"])
@pytest.mark.landing
def test_killed_within_the_gate_the_old_home_serves_on(
    cells: Cells, empty: list[str], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    move = make_move(cells, new)
    until(move, "wait")
    name = {"gate": "_await_copy", "sequences": "_carry_sequences", "shut": "_shut"}[part]

    kill_after(move, name, monkeypatch)
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
    move = make_move(cells, new)
    until(move, "wait")
    shut = move._shut

    def sleep(*given: object) -> None:
        query(old, "SELECT pg_sleep(1.5)")
        assert serves(old), "the server has ended the transaction"
        shut(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(move, "_shut", sleep)
    with pytest.raises(Exception, match="idle-in-transaction"):
        move.close()
    assert (serves(old), serves(new)) == (True, False)
    make_move(cells, new).abort()


@pytest.mark.landing
def test_nothing_else_changes_a_cell_that_moves(cells: Cells, empty: list[str]) -> None:
    old, new = empty
    assert cells.file is not None
    move = make_move(cells, new)
    until(move, "wait")
    for dsn in empty:
        with pytest.raises(ConfigurationError, match=r"is being moved\. Finish that first, or"):
            migrate(dsn, SCHEMA)
    with pytest.raises(ConfigurationError, match="being moved"):
        adopt_cell(new, SCHEMA)
    query(old, f"DROP TABLE {SCHEMA}.finished_jobs_{_day(old)}")
    assert query(old, f"SELECT {SCHEMA}.prepare_history(3)") == [(None,)]
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


def refuse(cells: Cells, to: str, *words: str) -> str:
    """Return why the command refuses the move."""
    env = {"INTURN_CELLS": str(cells.file)}
    done = invoke("cells", "move", str(CELL), "--to", to, *words, env=env)
    assert done.returncode in (2, 69), done.output
    return done.stderr


def test_what_cannot_move_is_refused_with_the_remedy(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    assert "There are no cells here" in invoke("cells", "move", "1", "--to", new).stderr
    assert "A cell cannot move within a database" in refuse(cells, old, "--schema", "other")
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
        assert refuse(cells, new, "--abort"), "it asks first"
        env = {"INTURN_CELLS": str(cells.file)}
        done = invoke("cells", "move", str(CELL), "--to", new, "--abort", "--yes", env=env)
        assert done.returncode == 0, done.output
        assert f"cell {CELL} stays at " in done.stdout
        assert query(old, LEFT) == [(0,)]
    finally:
        query(new, "DROP DATABASE elsewhere WITH (FORCE)")


def test_a_schema_gets_its_new_name_and_its_functions_know_it(
    cells: Cells, empty: list[str]
) -> None:
    assert cells.file is not None
    env = {"INTURN_CELLS": str(cells.file)}
    words = ("--to", empty[1], "--schema", "jobs")
    done = invoke("cells", "move", str(CELL), *words, env=env)
    assert done.returncode == 0, done.output
    assert "schema jobs_01" in done.stdout
    app = App(cells=cells.file)

    @app.task
    def pay() -> None: ...

    with app.open():
        job = pay.configure(lock=LANES[0]).defer()
        app.cell(CELL).run_worker(wait=False, install_signal_handlers=False)
        assert app.job_manager.get_job_status(job) == "succeeded"
    assert query(empty[1], "SELECT count(*) FROM jobs_01.finished_jobs") == [(1,)]
    migrate(empty[1], "jobs_01")
    again = invoke("cells", "move", str(CELL), *words, env=env)
    assert (again.returncode, again.stdout.count("\n")) == (0, 1)


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
    crashing: list[CrashingServer], victim: int, tmp_path: Path
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
        shut = move._shut

        def crash_in_the_gate(gate: Raw, token: str) -> None:
            shut(gate, token)
            crash()

        move._shut = crash_in_the_gate  # type: ignore[method-assign]
        until(move, "wait")
        with suppress(InturnError):
            move.close()
        assert serves(old) != (move.find_closed() is not None)
        until(make_move(cells, new), "close")
        crash()
        finish(cells, new)
        crash()
    load.judge()
    assert (serves(old), serves(new)) == (False, True)
    assert query(old, LEFT) == query(new, LEFT) == [(0,)]
