"""Two commands meet in the middle of a move: one home serves, and no job is lost."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import InvalidSchemaName

from inturn.cells.adopting import adopt
from inturn.cells.connector import Cells
from inturn.cells.move_servers import CannotMove, MoveOver, NewServer
from inturn.errors import ConfigurationError
from inturn.schema import migrate
from tests.cells.load import CELL, query
from tests.cells.moves import SCHEMA, Killed, call, finish, make_move, serves, until, writes
from tests.waiting import wait_until

pytestmark = pytest.mark.landing
DEFER = f"SELECT {SCHEMA}.defer('late')"
LATE = f"SELECT count(*) FROM {SCHEMA}.jobs WHERE task = 'late'"
WAITS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
def third(empty: list[str]) -> Iterator[str]:
    """A third home, for a move that begins while another one sleeps."""
    query(empty[0], "CREATE DATABASE third")
    yield make_conninfo(empty[0], dbname="third")
    query(empty[0], "DROP DATABASE third WITH (FORCE)")


def sleep_before(
    monkeypatch: pytest.MonkeyPatch, victim: object, name: str, others: Callable[[], object]
) -> None:
    """Let the others act before this method runs for the first time."""
    done = getattr(victim, name)

    def sleep(*given: object) -> object:
        monkeypatch.setattr(victim, name, done)
        others()
        return done(*given)

    monkeypatch.setattr(victim, name, sleep)


def discard(dsn: str) -> None:
    """Drop the subscription of a copy that nobody completes, or its database cannot be dropped."""
    server = NewServer(dsn, SCHEMA, SCHEMA)
    with server.connect() as connection:
        [(token,)] = query(dsn, "SELECT subname FROM pg_subscription")
        server.drop_subscription(connection, token)


@pytest.mark.parametrize("asleep", ["guarded", "drop_subscription"])
def test_the_old_home_is_adopted_while_a_mover_sleeps_in_open(
    cells: Cells, empty: list[str], third: str, asleep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its transaction on the new server and within it. The cell then moves elsewhere."""
    old, new = empty
    sleeper = until(make_move(cells, new), "close")

    def act() -> None:
        adopt(old, SCHEMA, agree=str)
        move = make_move(cells, third)
        move.run(lambda step: None, lambda done, total: None)

    sleep_before(monkeypatch, sleeper.new, asleep, act)
    with pytest.raises(MoveOver, match=r"was opened at .* again"):
        sleeper.open()
    assert [serves(dsn) for dsn in (old, new, third)] == [False, False, True]
    discard(new)


def test_the_old_home_is_not_adopted_once_the_new_one_may_serve(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    move = until(make_move(cells, new), "close")

    def act() -> None:
        with pytest.raises(CannotMove, match=r"and may have worked there\. Name that home in"):
            adopt(old, SCHEMA, agree=str)

    def be_killed(*given: object) -> None:
        act()
        raise Killed

    monkeypatch.setattr("inturn.cells.moving.open_schema", be_killed)
    with pytest.raises(Killed):
        move.open()
    assert (serves(old), serves(new)) == (False, False)
    monkeypatch.undo()
    finish(cells, new)
    assert (serves(old), serves(new)) == (False, True)
    done = call(cells, "cells", "adopt", "--cell", str(CELL), "--yes")
    assert done.returncode == 0, "at its home, it changes nothing"
    act()


def test_an_old_home_is_adopted_after_all_if_the_new_one_is_said_to_be_lost(
    cells: Cells, empty: list[str]
) -> None:
    old, new = empty
    until(make_move(cells, new), "open")
    with pytest.raises(CannotMove) as refused:
        adopt(old, SCHEMA, agree=str)
    _, _, remedy = str(refused.value).partition("run this again: ")
    query(old, remedy)
    adopt(old, SCHEMA, agree=str)
    assert serves(old)


@pytest.mark.parametrize("last", ["wait", "close"])
def test_an_abort_that_slept_deletes_no_copy_of_a_later_move(
    cells: Cells, empty: list[str], last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    until(make_move(cells, new), "wait")
    abort = make_move(cells, new)

    def act() -> None:
        make_move(cells, new).abort()
        query(old, DEFER)
        until(make_move(cells, new), last)

    sleep_before(monkeypatch, abort, "delete_copy", act)
    with pytest.raises(MoveOver, match="is of a later move"):
        abort.abort()
    finish(cells, new)
    assert query(new, LATE) == [(1,)]


def test_a_schema_that_comes_back_does_not_make_a_closed_cell_open(
    cells: Cells, empty: list[str]
) -> None:
    old, new = empty
    query(old, DEFER)
    until(make_move(cells, new), "close")
    query(old, f"CREATE SCHEMA {SCHEMA}")
    with pytest.raises(CannotMove, match="There is no way back now"):
        make_move(cells, new).abort()
    finish(cells, new)
    assert query(new, LATE) == [(1,)]


def test_nobody_writes_into_the_new_tables_before_they_are_copied(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell comes back to its first server, where a program has its first map, and no more."""
    old, new = empty
    move, created = make_move(cells, new), migrate.migrate

    def look(*given: Any, **named: Any) -> object:
        done = created(*given, **named)
        assert not writes(new)
        with pytest.raises(InvalidSchemaName, match="cell 1 is being moved here"):
            query(new, DEFER)
        return done

    monkeypatch.setattr(migrate, "migrate", look)
    until(move, "copy")
    monkeypatch.undo()
    query(old, DEFER)
    finish(cells, new)
    assert query(new, LATE) == [(1,)]


def test_a_migration_does_not_fill_the_schema_of_a_copy(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mover was killed between the two. Tables without its triggers would accept writes."""
    old, new = empty
    move = until(make_move(cells, new), "slot")

    def be_killed(*given: object) -> None:
        raise Killed

    monkeypatch.setattr(migrate, "migrate", be_killed)
    with pytest.raises(Killed):
        move.schema()
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="is being moved"):
        migrate.migrate(new, SCHEMA)
    assert not writes(new)
    finish(cells, new)
    assert (serves(old), serves(new)) == (False, True)


def test_a_move_waits_for_a_migration_that_has_looked_for_moves(
    cells: Cells, empty: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = empty
    looked = migrate._refuse_moving

    with ThreadPoolExecutor() as threads:

        def look(*given: Any) -> None:
            looked(*given)
            publishing.append(threads.submit(make_move(cells, new).publish))
            wait_until(lambda: query(old, WAITS))
            assert query(old, "SELECT pubname FROM pg_publication") == []

        publishing: list[Future[None]] = []
        monkeypatch.setattr(migrate, "_refuse_moving", look)
        migrate.migrate(old, SCHEMA)
        publishing[0].result()
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="is being moved"):
        migrate.migrate(old, SCHEMA)
    make_move(cells, new).abort()
