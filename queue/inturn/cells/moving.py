"""Move a cell to another server while it works, by logical replication.

A move has no state of its own. Each step looks at the two servers, and does nothing if it is done.
docs/decisions/cells.md says why two homes never serve the cell, even if a mover sleeps for hours
between any two statements.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from psycopg.sql import SQL, Identifier, Literal

from inturn.cells import move_checks
from inturn.cells.connector import CellConnector
from inturn.cells.move_servers import (
    CannotMove,
    MoveOver,
    NewServer,
    OldServer,
    Raw,
    ask,
    join,
)
from inturn.cells.move_tables import list_tables, make_partitions, open_schema, refuse_writes
from inturn.errors import DatabaseBusy, InturnError
from inturn.operations.engine import moving
from inturn.operations.engine.moving import PREFIX

# `check` comes first, each time.
STEPS = ("publish", "slot", "schema", "copy", "wait", "close", "open", "clean")
GATE = "SET LOCAL lock_timeout = '900ms'"  # less than deadlock_timeout: we give way, not a client
GATE_TRIES = 60
GATE_PAUSE = 0.3  # seconds
CATCH_UP_SECONDS = 5.0  # while the gate is closed
AHEAD = 1000  # steps that the sequences skip
STALLED_SECONDS = 60.0
LOOK_EVERY = 0.1  # seconds
Advance = Callable[[int, int | None], object]


@dataclass(frozen=True)
class Target:
    """Where the cell will be. It is the comment of the publication."""

    home: str
    place: str
    schema: str

    def __str__(self) -> str:
        return f"{self.place}, schema {self.schema}"


class CellMove:
    """The move of one cell. `run` does all steps, and each can be called by its name."""

    def __init__(
        self, home: CellConnector, to: str, schema: str | None = None, seen_from: str | None = None
    ) -> None:
        self.number = home.number
        self.cells = home.cells
        self.old = OldServer(home.dsn, home.schema)
        self.new = NewServer(to, home.schema, schema or home.schema)
        self.seen_from = seen_from or home.dsn  # the old server's address for the new one

    @property
    def command(self) -> str:
        return f"queue cells move {self.number} --to …"

    def run(self, note: Callable[[str], object], advance: Advance) -> str | None:
        """Do the steps that are not done yet. `note` is told the name of each.

        Return what could not be removed from the old server, or None.
        """
        if self.is_done():
            return None
        self.check()
        for step in STEPS[:-1]:
            self.wait(advance) if step == "wait" else getattr(self, step)()
            note(step)
        try:
            self.clean()
        except InturnError as error:  # the new home serves already
            return str(error)
        note("clean")
        return None

    # ------------------------------------------------------------------ looking

    def is_done(self) -> bool:
        """Return True if the map names the new home. Raise WrongCell unless that serves."""
        with self.old.connect() as old, self.new.connect() as new:
            same = self.old.identify(old) == self.new.identify(new)
        if same and self.old.schema != self.new.final:
            raise CannotMove("A cell cannot move within a database. Name another one")
        if same:
            self.cells.homes[self.number].connect().close()
        return same

    def check(self) -> None:
        """Raise CannotMove if the servers or the logins do not suffice."""
        if self.find_closed() is None:
            move_checks.check_servers(self.old, self.new, self.cells.homes[self.number])

    def find_closed(self) -> str | None:
        with self.old.connect() as old:
            return self.old.find_closed(old)

    def target(self) -> Target:
        with self.new.connect() as new:
            return Target(self.new.identify(new), self.new.place, self.new.final)

    def find_token(self, old: Raw) -> str:
        """Return the token of this move, or raise MoveOver."""
        found = self.old.find_open(old)
        if found is None:
            raise MoveOver(
                f"The move of cell {self.number} was aborted by another process. Begin again: "
                f"{self.command}"
            )
        token, target = found
        if Target(**target).home != self.target().home or target["schema"] != self.new.final:
            raise CannotMove(
                f"Cell {self.number} is being moved to {Target(**target)}. Finish that, or end it: "
                f"{self.command} --abort"
            )
        return token

    def open_token(self) -> str | None:
        """Return the token while the cell is not closed, or None."""
        with self.old.connect() as old:
            return None if self.old.find_closed(old) else self.find_token(old)

    # ------------------------------------------------------------------ steps

    def publish(self) -> None:
        """On the old server, create the publication. Its name is the token of this move."""
        target = self.target()
        with self.old.transaction() as old:
            if self.old.find_closed(old) or self.old.find_open(old):
                return
            name = Identifier(f"{PREFIX}{self.number:02}_{secrets.token_hex(4)}")
            tables = join([self.old.table(table) for table in list_tables()])
            old.execute(
                SQL(
                    "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
                ).format(name, tables)
            )
            comment = Literal(json.dumps(target.__dict__))
            old.execute(SQL("COMMENT ON PUBLICATION {} IS {}").format(name, comment))

    def slot(self) -> None:
        """On the old server, create the slot, unless the move was aborted."""
        if (token := self.open_token()) is None:
            return
        with self.old.transaction() as old:
            old.execute(moving.MAKE_SLOT.encode(), {"token": token})

    def schema(self) -> None:
        """On the new server, create the tables. They accept only what the old one sends."""
        if (token := self.open_token()) is None:
            return
        self._make_schema(token)
        with self.new.connect() as new:
            if self.new.find_cell(new, self.new.schema) is not None:
                return
        from inturn.schema.migrate import migrate, prepare_history

        migrate(self.new.dsn, self.new.schema)
        prepare_history(self.new.dsn, self.new.schema)
        with self.old.connect() as old:
            cell = self.new.find_cell(old, self.old.schema)
            days = [day for (day,) in ask(old, moving.DAYS, self.old.schema)]
        with self.new.guarded(token) as new:
            if cell is None or self.new.find_cell(new, self.new.schema) is not None:
                return
            make_partitions(new, self.new.schema, days)
            refuse_writes(new, self.new.schema, f"cell {self.number} is being moved here")
            new.execute(
                SQL("INSERT INTO {} (number, of, map, home) VALUES (%s, %s, %s, %s)").format(
                    self.new.table("cell")
                ),
                cell,
            )

    def _make_schema(self, token: str) -> None:
        name = Identifier(self.new.schema)
        with self.new.transaction() as new:
            found = self.new.find_comment(new, self.new.schema)
            if found is None:
                new.execute(SQL("CREATE SCHEMA {}").format(name))
                new.execute(SQL("COMMENT ON SCHEMA {} IS {}").format(name, Literal(token)))
            elif found != token:
                raise CannotMove(
                    f"{self.new} has another schema {self.new.schema}. Remove it, or end the move: "
                    f"{self.command} --abort"
                )

    def copy(self) -> None:
        """On the new server, create the subscription. It copies the tables, then follows."""
        if (token := self.open_token()) is None:
            return
        with self.new.guarded(token) as new:
            if not self.new.has_subscription(new, token):
                self.new.subscribe(new, token, self.seen_from)

    def wait(self, advance: Advance = lambda done, total: None) -> None:
        """Wait until the new server has a copy of each table."""
        if (token := self.open_token()) is None:
            return
        size = self.old.measure()
        idle, seen = 0.0, None  # an apply worker that cannot connect comes and goes
        with self.new.connect() as new:
            while True:
                [(ready, tables, copied, works)] = ask(new, moving.COPIED, {"token": token})
                if ready == tables and tables:
                    advance(size, size)
                    return
                advance(min(size, copied), size)
                if seen != (ready, copied):
                    idle, seen = 0.0, (ready, copied)
                idle += 0.0 if works else LOOK_EVERY
                if idle > STALLED_SECONDS or not tables:
                    raise CannotMove(self._explain_stall())
                time.sleep(LOOK_EVERY)

    def _explain_stall(self) -> str:
        return (
            f"{self.new} does not copy from {self.old}. Its log says why: often it cannot reach "
            "that address (give --from) or needs a password in it, or max_logical_replication_"
            f"workers is used up. Then run this again, or end it: {self.command} --abort"
        )

    def close(self) -> None:
        """On the old server, close the cell for good, in one transaction, or not at all."""
        if (token := self.open_token()) is None:
            return
        reason = ""
        for _ in range(GATE_TRIES):
            try:
                self._try_to_close(token)
                return
            except DatabaseBusy as error:
                reason = str(error)
                time.sleep(GATE_PAUSE)
        others = self.old.ask(moving.BLOCKERS, self.old.schema)
        found = ", ".join(f"{pid} ({who})" for pid, who in others)
        raise CannotMove(
            f"Cell {self.number} could not be closed, because others use it all the time. "
            f"{reason}. Long transactions: {found or 'none now'}. End them, and run this again"
        )

    def _try_to_close(self, token: str) -> None:
        with self.old.transaction() as gate, self.old.connect() as marks:
            if self.find_token(gate) != token:
                raise MoveOver(f"The move {token} is over")
            gate.execute(GATE)
            names = join([self.old.table(table) for table in (*list_tables(), "cell")])
            gate.execute(SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(names))
            [(position,)] = ask(marks, moving.MARK)
            self._await_copy(gate, token, position)
            self._carry_sequences(gate, token)
            self._shut(gate, token)
            gate.commit()

    def _await_copy(self, gate: Raw, token: str, position: Any) -> None:
        """Wait until the new server has stored all that was written before the gate closed."""
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while True:
            [(confirmed,)] = ask(gate, moving.CONFIRMED, token)
            if confirmed is not None and confirmed >= position:
                break
            if time.monotonic() > deadline:
                raise DatabaseBusy(f"{self.new} did not catch up within {CATCH_UP_SECONDS:g} s")
            time.sleep(0.005)
        with self.new.guarded(token) as new:
            [(ready, tables, _, _)] = ask(new, moving.COPIED, {"token": token})
            if ready != tables or tables != len(list_tables()):
                raise CannotMove(f"The copy at {self.new} is not complete. Run this again")

    def _carry_sequences(self, gate: Raw, token: str) -> None:
        """Set the sequences of the new server ahead of the old one's. It serves nobody yet."""
        with self.new.guarded(token) as new:
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

    def _shut(self, gate: Raw, token: str) -> None:
        schema, moved = Identifier(self.old.schema), Identifier(self.old.moved)
        target = self.target()
        refuse_writes(gate, self.old.schema, f"cell {self.number} was moved to {target}")
        home = SQL("UPDATE {} SET home = {}")
        gate.execute(home.format(self.old.table("cell"), Literal(f"moved to {target}")))
        gate.execute(SQL("DROP PUBLICATION {}").format(Identifier(token)))
        gate.execute(SQL("ALTER SCHEMA {} RENAME TO {}").format(schema, moved))
        gate.execute(
            SQL("COMMENT ON SCHEMA {} IS {}").format(
                moved, Literal(f"{token} was moved to {target}")
            )
        )

    def open(self) -> None:
        """On the new server, begin to serve, once the old one is closed for good."""
        token = self._await_standbys()
        try:
            with self.new.guarded(token) as new:
                self.new.drop_subscription(new, token)
                open_schema(new, self.new)
        except MoveOver:
            if not self.serves():
                raise

    def _await_standbys(self) -> str:
        """Return the token once each standby of the old server knows that the cell is closed."""
        with self.old.connect() as old:
            token = self.old.find_closed(old)
            if token is None:
                raise MoveOver(f"Cell {self.number} is not closed: the move was aborted")
            [(position,)] = ask(old, moving.WAL_END)
            deadline = time.monotonic() + CATCH_UP_SECONDS
            while ask(old, moving.STANDBYS_BEHIND, position) != [(0,)]:
                if time.monotonic() > deadline:
                    raise CannotMove(
                        f"A standby of {self.old} lags, and could still serve the cell if it were "
                        f"promoted now. Wait until it has caught up, then run this again"
                    )
                time.sleep(0.02)
        return token

    def serves(self) -> bool:
        """Return True if the new server is the home of this cell."""
        with self.new.connect() as new:
            found = self.new.find_cell(new, self.new.final)
            return self._is_ours(found) and found[3] == self.new.identify(new)

    def _is_ours(self, found: tuple[Any, ...] | None) -> TypeGuard[tuple[Any, ...]]:
        return found is not None and (
            found[0] == self.number and self.cells.map_id in (None, found[2])
        )

    def clean(self) -> None:
        """On the old server, drop the slot."""
        self.old.drop_dead_slots(f"{PREFIX}{self.number:02}_")

    # ------------------------------------------------------------------ ending

    def abort(self) -> None:
        """End the move and delete the copy, or raise CannotMove if the old home is closed."""
        with self.old.transaction() as old:
            if self.old.find_closed(old):
                raise CannotMove(
                    f"Cell {self.number} is closed at {self.old}, and complete at {self.new}. "
                    f"There is no way back now. Finish the move: {self.command}"
                )
            found = self.old.find_open(old)
            if found is not None:
                # From now on, no mover with this token can close the cell.
                old.execute(SQL("DROP PUBLICATION {}").format(Identifier(found[0])))
        self.clean()
        self.delete_copy()

    def delete_copy(self) -> None:
        """Delete the copy of an aborted move of this cell from the new server."""
        with self.new.connect() as new:
            token = self.new.find_comment(new, self.new.schema) or ""
        if not token.startswith(f"{PREFIX}{self.number:02}_"):
            return
        with self.new.guarded(token) as new:
            found = self.new.find_cell(new, self.new.schema)
            if found is not None and not self._is_ours(found):
                raise CannotMove(f"The copy at {self.new} is of another map's cell {self.number}")
            self.new.drop_subscription(new, token)
            new.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(self.new.schema)))
