"""Movers for the tests, and what tells which server is the home of the cell."""

import pytest
from psycopg import errors as pg

from inturn.cells.connector import Cells
from inturn.cells.map_file import rewrite_home
from inturn.cells.move_gate import CellGate
from inturn.cells.moving import STEPS, CellMove
from tests.cells.load import CELL, query
from tests.cli.calling import Ended, invoke

SCHEMA = f"inturn_{CELL:02}"
LEFT = """
SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_replication_slots
    WHERE database = current_database()) + (SELECT count(*) FROM pg_subscription
    JOIN pg_database ON pg_database.oid = subdbid WHERE datname = current_database())
"""
HOMES = f"SELECT count(*) FROM {SCHEMA}.cell WHERE home = {SCHEMA}.cell_home()"
BEFORE_CLOSE = STEPS[: STEPS.index("close")]
OLD_DAYS = f"""
SELECT {SCHEMA}.prepare_history(2)
FROM set_config('inturn.clock', '2026-11-01 12:00Z', false) AS clock WHERE clock <> ''
"""


def make_move(cells: Cells, to: str) -> CellMove:
    """Return a mover that knows nothing of earlier ones."""
    assert cells.file is not None
    return CellMove(Cells(cells.file).homes[CELL], to)


def until(move: CellMove, last: str) -> CellMove:
    """Do the steps up to this one, like a mover that is then killed. Return it."""
    for step in STEPS[: STEPS.index(last) + 1]:
        getattr(move, step)()
    return move


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


def call(cells: Cells, *words: str, **environment: str) -> Ended:
    """Run `queue` on these cells."""
    return invoke(*words, env={"INTURN_CELLS": str(cells.file), **environment})


def refuse(cells: Cells, to: str, *words: str) -> str:
    """Return why the command refuses the move."""
    done = call(cells, "cells", "move", str(CELL), "--to", to, *words)
    assert done.returncode in (2, 69), done.output
    return done.stderr


class Killed(BaseException):
    """The mover is killed."""


def kill_after(move: CellMove | type[CellGate], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = getattr(move, name)

    def killed(*given: object) -> None:
        done(*given)
        raise Killed

    monkeypatch.setattr(move, name, killed)
