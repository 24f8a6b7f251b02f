"""How the old home of a cell is closed: in one transaction, for good, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from psycopg.sql import SQL, Identifier, Literal

from inturn.cells.move_servers import CannotMove, NewServer, OldServer, Raw, Seal, ask, join
from inturn.cells.move_tables import list_tables, refuse_writes
from inturn.errors import DatabaseBusy
from inturn.operations.engine import moving

AT_ONCE = "SET LOCAL lock_timeout = '900ms'"  # less than deadlock_timeout: clients do not give way
TRY_SECONDS = 60.0  # to close the cell
PAUSE = 0.3  # seconds, while a long transaction uses the cell
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
        deadline, reason = time.monotonic() + TRY_SECONDS, ""
        while True:
            found = self.old.ask(moving.BLOCKERS, self.old.schema)
            # While one is there, all clients would wait behind us for nothing.
            stays = [who for who, gives_way in found if not gives_way]
            if not stays:
                try:
                    self._try_to_close()
                    return
                except DatabaseBusy as error:
                    reason = f"{error}. "
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE if stays else REST)
        others = ", ".join(stays or [who for who, _ in found])
        raise CannotMove(
            f"Cell {self.number} could not be closed, because others use it all the time. "
            f"{reason}Long transactions: {others or 'none now'}. End them, and run this again"
        )

    def _try_to_close(self) -> None:
        with self.begin(self.token) as gate, self.old.connect() as marks:
            names = join([self.old.table(table) for table in (*list_tables(), "cell")])
            # Autovacuum gives way only to who waits for a second. Nobody else waits for this lock.
            gate.execute(SQL("LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE").format(names))
            gate.execute(AT_ONCE)
            gate.execute(SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(names))
            [(position,)] = ask(marks, moving.MARK)
            self._await_copy(gate, position)
            self._complete_copy(gate, position)
            self._shut(gate, position)
            gate.commit()

    def _await_copy(self, gate: Raw, position: Any) -> None:
        """Wait until this copy has stored all that was written before the gate closed."""
        deadline = time.monotonic() + CATCH_UP_SECONDS
        with self.new.connect() as new:
            slot = self.new.find_slot(new, self.token)
            while True:
                rows = ask(gate, moving.CONFIRMED, slot)
                if not rows:
                    raise CannotMove(explain_lost_slot(self.old, self.number))
                # Both, since a copy of the new server's files may be what we look at.
                [(received,)] = ask(new, moving.RECEIVED, self.token)
                if min(rows[0][0] or 0, received or 0) >= position:
                    break
                if time.monotonic() > deadline:
                    raise DatabaseBusy(f"{self.new} did not catch up within {CATCH_UP_SECONDS:g} s")
                time.sleep(0.005)
            [(ready, tables, *_)] = ask(new, moving.COPIED, {"token": self.token})
        if ready != tables or tables != len(list_tables()):
            raise CannotMove(f"The copy at {self.new} is not complete. Run this again")

    def _complete_copy(self, gate: Raw, position: Any) -> None:
        """Give the copy sequences ahead of the old home's, and its seal. It serves nobody yet."""
        with self.new.guarded(self.token) as new:
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
            self.new.set_comment(new, self.new.schema, str(Seal(self.token, str(position))))

    def _shut(self, gate: Raw, position: Any) -> None:
        schema, moved = Identifier(self.old.schema), Identifier(self.old.moved)
        target = f"{self.new.place}, schema {self.new.final}"
        refuse_writes(gate, self.old.schema, f"cell {self.number} was moved to {target}")
        home = SQL("UPDATE {} SET home = {}")
        gate.execute(home.format(self.old.table("cell"), Literal(f"moved to {target}")))
        gate.execute(SQL("DROP PUBLICATION {}").format(Identifier(self.token)))
        comment = f"{Seal(self.token, str(position))} was moved to {target}"
        self.old.set_comment(gate, self.old.schema, comment)
        gate.execute(SQL("ALTER SCHEMA {} RENAME TO {}").format(schema, moved))


def explain_lost_slot(old: OldServer, number: int) -> str:
    return (
        f"{old} has lost the slot of this move, as in a failover, so what it wrote since then is "
        f"not in the copy. Delete that, and begin again: queue cells move {number} --to … --abort"
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
