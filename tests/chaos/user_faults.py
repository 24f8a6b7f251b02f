"""What users and operators do while workers work: open transactions, DDL, odd rows."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg

from tests.chaos.play import STALLED, Fault, Play

OPEN = "a user's open transaction held a lock"
PATIENCE = 8.0  # seconds until odd rows have ended
ODD_ROWS = {"digits": "repeat('9', 5000)", "nesting": "repeat('[', 3000) || repeat(']', 3000)"}


@contextmanager
def transaction(play: Play, seconds: float) -> Iterator[psycopg.Connection[Any]]:
    """A user's transaction that stays open for a while, and then commits or rolls back."""
    with play.server.connect() as connection:
        connection.execute("BEGIN; SET LOCAL lock_timeout = '2s'")
        yield connection
        play.seen(OPEN)
        play.hold(seconds)
        connection.execute(play.dice.choice(["COMMIT", "ROLLBACK"]))


def leave_open(seconds: float, statement: LiteralString) -> Callable[[Play], None]:
    def inflict(play: Play) -> None:
        with transaction(play, seconds) as connection:
            connection.execute(statement)

    return inflict


def pause(play: Play) -> None:
    lane = f"lane-{play.dice.randrange(12)}"
    with transaction(play, 2) as connection:
        connection.execute("SELECT pause_lane(%s, 'chaos')", [lane])
    play.hold(0.5)
    play.query("SELECT resume_lane(%s)", lane)


def replace(play: Play) -> None:
    """Replace a waiting job by one that does the same.

    Meanwhile the job before it ends, and claims go on.
    """
    play.defer(1.0, "replaced")
    id = play.defer(0.01, "replaced", "chaos")
    with play.server.connect() as connection:
        # This does what `replace` does, except for a job that has started meanwhile.
        connection.execute("BEGIN")
        row = connection.execute(
            "UPDATE jobs SET args = args WHERE id = %s AND status IN ('todo', 'blocked') "
            "RETURNING id",
            [id],
        ).fetchone()
        begun = _begun(play)
        play.hold(2.5)
        if row is not None and _begun(play) > begun:
            play.seen("claims went on while a replace was open")
        connection.execute("COMMIT")


def _begun(play: Play) -> int:
    return int(play.query("SELECT last_value FROM fences")[0][0])


def abort_a_job(play: Play) -> None:
    """Ask to abort a running job, in a transaction that stays open for a while."""
    play.defer(1.5)
    running: list[tuple[Any, ...]] = []
    until = time.monotonic() + PATIENCE
    while not running and time.monotonic() < until:
        play.hold(0.05)
        running = play.query(
            "SELECT id, args->>'op', (args->>'index')::int FROM jobs WHERE status = 'doing' LIMIT 1"
        )
    if running:
        [(id, op, index)] = running
        play.history.write("cancel", job=[op, index])
        with transaction(play, 2) as connection:
            connection.execute("SELECT cancel_job(%s, true)", [id])


def odd_row(kind: str) -> Callable[[Play], None]:
    def inflict(play: Play) -> None:
        """Insert an odd row with a lane and one without. If SQL's `defer` refuses it, bypass it."""
        ids = []
        for lane in (None, f"lane-{play.dice.randrange(12)}"):
            op = play.op()
            play.history.write("call", op=op, lane=lane, jobs=[{"odd": True}])
            args = '(\'{"op":"' + op + '","index":0,"a":\' || ' + ODD_ROWS[kind] + " || '}')::jsonb"
            with play.server.connect() as connection:
                ids.append(_inserted(connection, args, lane))
            play.history.write("inserted", op=op, ids=ids[-1:])
            play.history.write("ok", op=op)
        until = time.monotonic() + PATIENCE
        while play.query("SELECT FROM jobs WHERE id = ANY (%s)", ids) and time.monotonic() < until:
            play.hold(0.2)

    return inflict


def _inserted(connection: psycopg.Connection[Any], args: str, lane: str | None) -> int:
    try:
        row = connection.execute(f"SELECT defer('step', {args}, lock => %s)", [lane]).fetchone()
    except psycopg.Error:
        columns = "INSERT INTO jobs (task, args, lock, created_at, status)"
        row = connection.execute(
            f"{columns} VALUES ('step', {args}, %s, now(), 'todo') RETURNING id", [lane]
        ).fetchone()
    assert row is not None
    return int(row[0])


def add_and_drop_a_column(play: Play) -> None:
    for table in ("jobs", "finished_jobs"):
        for change in ("ADD COLUMN chaos int", "DROP COLUMN chaos"):
            with play.server.connect() as connection:
                connection.execute("SET lock_timeout = '3s'")
                connection.execute(f"ALTER TABLE {table} {change}")
            play.seen("a column was added or dropped under load")
            play.hold(0.7)


def vacuum_full(play: Play) -> None:
    for table in ("jobs", "lanes", "workers"):
        play.query(f"VACUUM FULL {table}")
        play.hold(0.3)


def lock_workers(play: Play) -> None:
    """Lock the rows of workers for longer than the stalled timeout."""
    leave_open(play.stalled + 3, "SELECT FROM workers FOR UPDATE")(play)
    play.hold(1)


FAULTS = [
    Fault("an odd row: digits", odd_row("digits"), 4, ("an odd row was ended",)),
    Fault("an odd row: nesting", odd_row("nesting"), 4, ("an odd row was ended",)),
    Fault("a replace is left open", replace, 3, ("claims went on while a replace was open",)),
    Fault("a pause is left open", pause, 4, (OPEN,)),
    Fault("a request to abort is left open", abort_a_job, 3, ("somebody asked to cancel a job",)),
    Fault("the table of jobs is locked for 1 s", leave_open(1, "LOCK TABLE jobs"), 2, (OPEN,)),
    Fault("the history is locked for 1 s", leave_open(1, "LOCK TABLE finished_jobs"), 2, (OPEN,)),
    Fault("the rows of workers are locked beyond a heartbeat", lock_workers, STALLED + 5, (OPEN,)),
    Fault(
        "the rows of lanes are locked for 2 s",
        leave_open(2, "SELECT FROM lanes FOR UPDATE"),
        3,
        (OPEN,),
    ),
    Fault(
        "columns are added and dropped",
        add_and_drop_a_column,
        5,
        ("a column was added or dropped under load",),
    ),
    Fault("VACUUM FULL", vacuum_full, 3, ()),
]
