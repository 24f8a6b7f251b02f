"""How the old home of a cell is closed: in one transaction, for good, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL, Identifier, Literal

from inturn.cells.move_servers import CannotMove, NewServer, OldServer, Raw, Seal, ask
from inturn.cells.move_tables import list_tables, refuse_writes, sum_history, sum_tables
from inturn.errors import DatabaseBusy
from inturn.operations.engine import moving

AT_ONCE = "SET LOCAL lock_timeout = '900ms'"  # less than deadlock_timeout: clients do not give way
TRY_SECONDS = 60.0  # to close the cell
PAUSE = 0.3  # seconds, while a long transaction uses the cell
TRIES = 3  # to compare the history, which jobs that are retried leave
REST = 2.0  # seconds after all clients have waited for us in vain
CATCH_UP_SECONDS = 5.0  # while the gate is closed
AHEAD = 1000  # steps that the sequences skip
LOOK_EVERY = 0.02  # seconds


@dataclass(frozen=True)
class CellGate:
    """The gate of one move. `begin` opens a transaction on the old server, or raises MoveOver."""

    number: int
    old: OldServer
    new: NewServer
    token: str
    begin: Callable[[str], AbstractContextManager[Raw]]

    def close(self) -> None:
        """Close the cell, or raise CannotMove and leave it open."""
        deadline = time.monotonic() + TRY_SECONDS
        reason = "Others use it all the time. "
        since = None
        while True:
            found = self.old.ask(moving.BLOCKERS, self.old.schema)
            # While one is there, all clients would wait behind us for nothing.
            stays = [who for who, gives_way in found if not gives_way]
            if not stays:
                try:
                    if since is None:
                        since, deadline = self._check_history(), time.monotonic() + TRY_SECONDS
                    self._try_to_close(since)
                    return
                except DatabaseBusy as error:
                    reason = f"{error}. "
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE if stays else REST)
        others = ", ".join(stays or [who for who, _ in found])
        raise CannotMove(
            f"Cell {self.number} could not be closed. {reason}Long transactions: "
            f"{others or 'none now'}. End them, and run this again"
        )

    def _check_history(self) -> Any:
        """Raise CannotMove unless the copy has the history. Return since when its server runs.

        The gate has no time for this. If that server has been up since then, it has lost nothing.
        """
        with self.old.connect() as old, self.new.connect() as new:
            [(since,)] = ask(new, moving.RUNS_SINCE)
            [(until,)] = ask(old, "SELECT now()")
            for _ in range(TRIES):
                had = sum_history(old, self.old.schema, until)
                self._await_copy(old)
                if sum_history(new, self.new.schema, until) == had:
                    return since
        raise CannotMove(self._explain_gap(["finished_jobs"]))

    def _explain_gap(self, tables: list[str]) -> str:
        return (
            f"The copy at {self.new} is not that of {self.old}. These tables differ: "
            f"{', '.join(tables)}. Did that server fail over, or was it restored? Delete the copy, "
            f"and begin again: queue cells move {self.number} --to … --abort"
        )

    def _try_to_close(self, since: Any) -> None:
        with self.old.connect() as marks:
            self._await_copy(marks)  # or all clients would wait for a copy that is far behind
            with self.begin(self.token) as gate:
                tables = (*list_tables(), "cell")
                names = SQL(", ").join(self.old.table(table) for table in tables)
                # Autovacuum gives way only after a second. No other session needs this lock.
                gate.execute(SQL("LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE").format(names))
                gate.execute(AT_ONCE)
                gate.execute(SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(names))
                position = self._await_copy(marks)
                self._complete_copy(gate, position, since)
                self._shut(gate, position)
                gate.commit()

    def _await_copy(self, marks: Raw) -> Any:
        """Wait until the slot's reader has stored all that was written. Return that position."""
        deadline = time.monotonic() + CATCH_UP_SECONDS
        with self.new.guarded(self.token) as new:
            slot = self.new.find_slot(new, self.token)
        [(position,)] = ask(marks, moving.MARK)
        while (found := ask(marks, moving.HAS_CONFIRMED, position, slot)) != [(True,)]:
            if not found:
                raise CannotMove(explain_lost_slot(self.old, self.number))
            if time.monotonic() > deadline:
                raise DatabaseBusy(self._explain_lag())
            time.sleep(0.005)
        return position

    def _explain_lag(self) -> str:
        [(*_, failures)] = self.new.ask(moving.COPIED, {"token": self.token})
        fails = f", and failed {failures} times to apply it. Its log says why" if failures else ""
        return f"{self.new} did not catch up within {CATCH_UP_SECONDS:g} s{fails}"

    def _complete_copy(self, gate: Raw, position: Any, since: Any) -> None:
        """Give the copy sequences ahead of the old home's, and its seal. It does not serve yet."""
        with self.new.guarded(self.token) as new:
            self._compare(gate, new, since)
            for name, step in ask(gate, moving.SEQUENCES, self.old.schema):
                query = SQL("SELECT last_value, is_called FROM {}").format(self.old.table(name))
                row = gate.execute(query).fetchone()
                assert row is not None
                last, is_called = row
                new.execute(
                    SQL("ALTER SEQUENCE {} INCREMENT BY {}").format(
                        self.new.table(name), Literal(step)
                    )
                )
                new.execute(
                    SQL("SELECT setval({}, {}, {})").format(
                        Literal(self.new.table(name).as_string(new)),
                        Literal(last + AHEAD * step if is_called else last),
                        Literal(is_called),
                    )
                )
            seal = Seal(self.token, str(position))
            self.new.set_comment(new, self.new.schema, str(seal))

    def _compare(self, gate: Raw, new: Raw, since: Any) -> None:
        """Raise CannotMove unless the copy, whose server may have lost some of it, has all rows."""
        if ask(new, moving.RUNS_SINCE) != [(since,)]:
            raise CannotMove(f"{self.new} was started while it was compared. Run this again")
        [(ready, tables, *_)] = ask(new, moving.COPIED, {"token": self.token})
        if ready != tables:  # what changes in the others is confirmed, but not stored yet
            raise CannotMove(f"{self.new} copies tables again. Run this again")
        with ThreadPoolExecutor(1) as beside:
            theirs = beside.submit(sum_tables, new, self.new.schema)
            ours = sum_tables(gate, self.old.schema)
        if differ := [table for table, rows in ours.items() if theirs.result()[table] != rows]:
            raise CannotMove(self._explain_gap(differ))

    def _shut(self, gate: Raw, position: Any) -> None:
        schema, moved = Identifier(self.old.schema), Identifier(self.old.moved)
        target = self.new.target
        refuse_writes(gate, self.old.schema, f"cell {self.number} was moved to {target}")
        home = SQL("UPDATE {} SET home = {}")
        gate.execute(home.format(self.old.table("cell"), Literal(f"moved to {target}")))
        gate.execute(SQL("DROP PUBLICATION {}").format(Identifier(self.token)))
        comment = f"{Seal(self.token, str(position))} was moved to {target}"
        self.old.set_comment(gate, self.old.schema, comment)
        gate.execute(SQL("ALTER SCHEMA {} RENAME TO {}").format(schema, moved))


def explain_lost_slot(old: OldServer, number: int) -> str:
    return (
        f"{old} has lost the slot of this move, as in a failover or by max_slot_wal_keep_size, so "
        "what it wrote since then is not in the copy. Delete that, and begin again: "
        f"queue cells move {number} --to … --abort"
    )


def await_standbys(old: OldServer, position: Any, seconds: float, remedy: str) -> None:
    """Wait until each standby of the old server has its WAL up to a position."""
    deadline = time.monotonic() + seconds
    with old.connect() as connection:
        while behind := ask(connection, moving.STANDBYS_BEHIND, position):
            if time.monotonic() > deadline:
                names = ", ".join(name for (name,) in behind)
                raise CannotMove(f"These standbys of {old} lag: {names}. {remedy}")
            time.sleep(LOOK_EVERY)
