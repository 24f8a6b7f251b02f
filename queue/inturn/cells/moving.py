"""Move a cell to another server while it works, by logical replication.

A move has no state of its own. Each step looks at the two servers, and does nothing if it is done.
docs/decisions/cells.md says why two homes never serve the cell, even if a mover sleeps for hours
between any two statements.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psycopg.sql import SQL, Identifier, Literal

from inturn.cells import move_checks, move_gate
from inturn.cells.connector import CellConnector
from inturn.cells.map import name_place
from inturn.cells.move_gate import CellGate, await_standbys, explain_lost_slot
from inturn.cells.move_servers import (
    CannotMove,
    MapAddress,
    MoveOver,
    NewServer,
    OldServer,
    Raw,
    Seal,
    ask,
    is_same_database,
)
from inturn.cells.move_tables import list_tables, make_partitions, open_schema, refuse_writes
from inturn.errors import DatabaseUnavailable, InturnError
from inturn.operations.engine import moving
from inturn.operations.engine.moving import AWAIT_MIGRATION, PREFIX

# `check` comes first, each time.
STEPS = ("publish", "slot", "schema", "copy", "wait", "close", "clean", "open")
STANDBY_SECONDS = 60.0  # for which the cell stays closed until the standbys know it
STALLED_SECONDS = 60.0
LOOK_EVERY = 0.1  # seconds
Advance = Callable[[int, int | None], object]


class CellMove:
    """The move of one cell. `run` does all steps, and each can be called by its name."""

    def __init__(
        self,
        home: CellConnector,
        to: str,
        schema: str | None = None,
        *,
        from_: str | None = None,
        admin: str | None = None,
        ignore_standbys: bool = False,
    ) -> None:
        self.number = home.number
        self.cells = home.cells
        self.here = MapAddress(home.dsn, home.schema)
        self.old = OldServer(from_ or home.dsn, home.schema)
        self.to = MapAddress(to, schema or home.schema)
        self.new = NewServer(admin or to, home.schema, self.to.schema, name_place(to))
        self.ignore_standbys = ignore_standbys

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
        left = None
        for step in STEPS:
            try:
                self.wait(advance) if step == "wait" else getattr(self, step)()
            except InturnError as error:
                if step != "clean":
                    raise
                left = str(error)  # the copy has everything, so the new home can open
            else:
                note(step)
        return left

    # ------------------------------------------------------------------ looking

    def is_done(self) -> bool:
        """Return True if the map names the new home. Raise WrongCell unless that serves."""
        if not is_same_database(self.here, self.to):
            return False
        if self.old.schema != self.new.final:
            raise CannotMove("A cell cannot move within a database. Name another one")
        self.cells.homes[self.number].connect().close()
        return True

    def check(self) -> None:
        """Raise CannotMove if the servers or the logins do not suffice."""
        for server, address in ((self.old, self.here), (self.new, self.to)):
            if server.dsn != address.dsn and not is_same_database(server, address):
                raise CannotMove(f"{server.option} leads to another database than {address}")
        if self.find_closed() is None:
            home = self.cells.homes[self.number]
            move_checks.check_servers(self.old, self.new, self.to, home)

    def find_closed(self) -> Seal | None:
        with self.old.connect() as old:
            return self.old.find_closed(old)

    def find_token(self, old: Raw) -> str:
        """Return the token of this move, or raise MoveOver."""
        found = self.old.find_open(old)
        if found is None:
            raise MoveOver(
                f"The move of cell {self.number} was aborted by another process. Begin again: "
                f"{self.command}"
            )
        token, target = found
        if target != self.new.target:
            raise CannotMove(
                f"Cell {self.number} is being moved to {target}. Finish that, or end it: "
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
        with self.old.transaction() as old:
            ask(old, AWAIT_MIGRATION, self.old.schema)  # one that has not seen a publication
            if self.old.find_closed(old) or self.old.find_open(old):
                return
            name = Identifier(f"{PREFIX}{self.number:02}_{secrets.token_hex(4)}")
            tables = SQL(", ").join(self.old.table(table) for table in list_tables())
            old.execute(
                SQL(
                    "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
                ).format(name, tables)
            )
            comment = Literal(self.new.target)
            old.execute(SQL("COMMENT ON PUBLICATION {} IS {}").format(name, comment))

    def slot(self) -> None:
        """On the old server, create the slot, unless the move was aborted."""
        if (token := self.open_token()) is None:
            return
        with self.new.connect() as new, self.old.connect() as old:
            followed, slots = self.new.find_slot(new, token), self.old.find_slots(old, token)
        if followed is not None and followed not in slots:
            raise CannotMove(explain_lost_slot(self.old, self.number))
        if not slots:
            self.old.make_slot(token)

    def schema(self) -> None:
        """On the new server, create the tables. They accept only what the old one sends."""
        if (token := self.open_token()) is None:
            return
        with self.old.connect() as old:
            cell = self.old.find_cell(old, self.old.schema)
            days = [day for (day,) in ask(old, moving.DAYS, self.old.schema)]
            owner = self.old.find_owner(old)
        self._make_schema(token, owner)
        with self.new.connect() as new:
            if self.new.find_cell(new, self.new.schema) is not None:
                return

        def finish(new: Raw) -> None:
            self.new.lock(new)
            self.new.check_copy(new, token)
            if self.new.find_cell(new, self.new.schema) is not None:
                return
            make_partitions(new, self.new.schema, days)
            refuse_writes(new, self.new.schema, f"cell {self.number} is being moved here")
            new.execute(
                SQL("INSERT INTO {} (number, of, map, home) VALUES (%s, %s, %s, %s)").format(
                    self.new.table("cell")
                ),
                cell,
            )

        from inturn.schema.migrate import migrate

        # In one transaction, or a program whose map is old could write into the new tables.
        migrate(self.new.dsn, self.new.schema, finish)

    def _make_schema(self, token: str, owner: str) -> None:
        """Create the schema for the login of --to, or with --admin for the role that has it now."""
        role = Identifier(owner) if self.new.dsn != self.to.dsn else SQL("CURRENT_USER")
        create = SQL("CREATE SCHEMA {} AUTHORIZATION {}")
        with self.new.transaction() as new:
            found = self.new.find_comment(new, self.new.schema)
            seal = Seal.read(found)
            if found is None:
                new.execute(create.format(Identifier(self.new.schema), role))
                self.new.set_comment(new, self.new.schema, token)
            elif seal is None or seal.token != token:
                raise CannotMove(
                    f"{self.new} has another schema {self.new.schema}. Remove it, or end the move: "
                    f"{self.command} --abort"
                )

    def copy(self) -> None:
        """On the new server, create the subscription. It copies the tables, then follows."""
        if (token := self.open_token()) is None:
            return
        with self.old.connect() as old:
            slots = self.old.find_slots(old, token)
        if not slots:
            raise CannotMove(explain_lost_slot(self.old, self.number))
        with self.new.guarded(token) as new:
            if self.new.find_slot(new, token) is None:
                self.new.subscribe(new, token, slots[0], self.old.dsn)

    def wait(self, advance: Advance = lambda done, total: None) -> None:
        """Wait until the new server has a copy of each table."""
        if (token := self.open_token()) is None:
            return
        [(size,)] = self.old.ask(moving.SIZE, self.old.schema)
        # An apply worker that cannot connect comes and goes, and so does a copy that fails.
        idle, best, failed = 0.0, (-1, 0), 0
        with self.new.connect() as new, self.old.connect() as old:
            while True:
                if ask(old, moving.SLOT_WAITS, STALLED_SECONDS):
                    raise CannotMove(self.old.explain_wait())
                asked = ask(new, moving.COPIED, {"token": token})
                [(ready, tables, copied, works, failures)] = asked
                if ready == tables and tables:
                    break
                advance(min(size, copied), size)
                if (ready, copied) > best:
                    idle, best, failed = 0.0, (ready, copied), failures
                elif failures > failed or not works:
                    idle += LOOK_EVERY
                if idle > STALLED_SECONDS or not tables:
                    raise CannotMove(self._explain_stall())
                time.sleep(LOOK_EVERY)
            for table in list_tables():  # or the first queries would have bad plans
                new.execute(SQL("ANALYZE {}").format(self.new.table(table)))
            ask(new, moving.MARK)  # flushes what its workers have noted without waiting
        advance(size, size)

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
        if not self.ignore_standbys:  # before the cell is closed, for it could not be opened then
            [(position,)] = self.old.ask(moving.WAL_END)
            remedy = "Let them catch up first, or give --ignore-standbys and never promote them"
            await_standbys(self.old, position, move_gate.CATCH_UP_SECONDS, remedy)
        CellGate(self.number, self.old, self.new, token, self._begin_gate).close()

    @contextmanager
    def _begin_gate(self, token: str) -> Iterator[Raw]:
        with self.old.transaction() as gate:
            if self.find_token(gate) != token:
                raise MoveOver(f"The move {token} is over")
            yield gate

    def clean(self) -> None:
        """On the old server, drop the slot. Nothing leads there once the map names the new home."""
        self.old.drop_dead_slots(f"{PREFIX}{self.number:02}_")

    def open(self) -> None:
        """On the new server, begin to serve, once the old one is closed for good."""
        seal = self.find_closed()
        if seal is None:
            raise MoveOver(f"Cell {self.number} is not closed: the move was aborted")
        self._await_standbys(STANDBY_SECONDS)
        try:
            with self.new.guarded(seal.token, seal.complete) as new:
                self.new.drop_subscription(new, seal.token)
                self.old.note_opening(seal, self.new.target)  # an adoption refuses from now on,
                self._await_standbys(move_gate.CATCH_UP_SECONDS)  # even after a failover
                open_schema(new, self.new, f"home since {seal.token}")
        except MoveOver:
            if not self.serves(seal):
                raise

    def _await_standbys(self, seconds: float) -> None:
        """Wait until the standbys know that the old home is closed, and what was noted there."""
        if self.ignore_standbys:
            return
        [(position,)] = self.old.ask(moving.WAL_END)
        remedy = (
            "They could serve the cell if they were promoted now. Let them catch up, and run this "
            "again, or give --ignore-standbys and never promote them"
        )
        await_standbys(self.old, position, seconds, remedy)

    def serves(self, seal: Seal) -> bool:
        """Return True if the new server is the home since this move."""
        with self.new.connect() as new, self.old.connect() as old:
            found = self.new.find_comment(new, self.new.final)
            told = self.old.find_comment(old, self.old.moved) or ""
        was_told = told.endswith(f"was moved to {self.new.target}")
        return was_told and found == f"home since {seal.token}"

    # ------------------------------------------------------------------ ending

    def abort(self) -> bool:
        """End the move, or raise CannotMove if its old home is closed. Return True if it copied."""
        with self.old.transaction() as old:
            if self.old.find_closed(old):
                raise CannotMove(
                    f"Cell {self.number} is closed at {self.old}, and complete at {self.new}. "
                    f"There is no way back now. Finish the move: {self.command}"
                )
            if self.old.find_open(old) is not None:
                # From now on, no mover with this token can close the cell.
                token = self.find_token(old)
                old.execute(SQL("DROP PUBLICATION {}").format(Identifier(token)))
        self.clean()
        try:
            return self.delete_copy()
        except DatabaseUnavailable as error:
            raise CannotMove(
                f"The move is over, but the copy is left: {error}. When {self.new} answers, run "
                f"this again. If it is lost, drop the slots that it may have left at {self.old}: "
                "those in pg_replication_slots that are not active and named pg_%_sync_%"
            ) from error

    def delete_copy(self) -> bool:
        """Delete the copy of an aborted move of this cell from the new server, if it is there."""
        with self.new.connect() as new:
            seal = Seal.read(self.new.find_comment(new, self.new.schema))
        if seal is None or not seal.token.startswith(f"{PREFIX}{self.number:02}_"):
            return False
        with self.old.connect() as old:
            closed, begun = self.old.find_closed(old), self.old.find_open(old)
            here = self.old.find_cell(old, self.old.moved if closed else self.old.schema)
        # A token that is neither there never comes back.
        if seal.token in (closed and closed.token, begun and begun[0]):
            raise MoveOver(f"The copy at {self.new} is of a later move. Look: queue cells check")
        with self.new.guarded(seal.token) as new:
            found = self.new.find_cell(new, self.new.schema)
            if found is not None and (here is None or found[:3] != here[:3]):
                raise CannotMove(f"The copy at {self.new} is of another map's cell {self.number}")
            self.new.drop_subscription(new, seal.token)
            new.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(self.new.schema)))
        return True
