"""The two servers of a move, and what can be seen on them.

Whatever must not happen late is in one transaction with the check that it is still right. Such a
transaction holds its server's lock of the move, and the server ends it if it idles.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg.sql import SQL, Identifier, Literal

from inturn.cells.map import name_place
from inturn.database import drive
from inturn.database.conditions import first_line
from inturn.database.connector import RELIED_ON, UNLIMITED
from inturn.database.deadlines import Terms, with_deadlines
from inturn.database.dsn import find_problem
from inturn.errors import ConfigurationError, DatabaseBusy
from inturn.operations.engine import moving
from inturn.operations.engine.moving import MOVED, PREFIX

Raw = psycopg.Connection[tuple[Any, ...]]
CONNECT_SECONDS = 5.0
WITHIN_SECONDS = "SET LOCAL statement_timeout = '30s'"  # for what waits for another process
SLOT_SECONDS = 60  # for which a new slot waits for older transactions
# What a server has told cannot be lost in its crash, and thus be told otherwise.
SETTINGS = RELIED_ON | UNLIMITED | {"synchronous_commit": "on", "client_min_messages": "warning"}
AS_TEXT = {"TimeZone": "UTC", "extra_float_digits": "1"}  # of rows, to compare both servers


class CannotMove(ConfigurationError):
    """A cell cannot be moved like this. Nothing that serves it was changed."""


class MoveOver(CannotMove):
    """Another process has finished or aborted this move."""


class Seal(NamedTuple):
    """The first word of the comment on a cell's schema during a move, in parts.

    The copy gets the position up to which it has everything, and the closed home gets the same. The
    word "opened" is added there before the new home opens: from then on, that may serve.
    """

    token: str
    complete: str = ""
    opened: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, self))

    @classmethod
    def read(cls, comment: str | None) -> Seal | None:
        word = (comment or "").partition(" ")[0]
        return cls(*word.split("/")) if word.startswith(PREFIX) else None


class MoveServer:
    """A database, and the schema in which the cell lies there during the move."""

    rights = ""
    option = ""  # that names its own address
    may_be_pooled = False

    def __init__(self, dsn: str, schema: str) -> None:
        if (wrong := find_problem(dsn)) is not None:
            raise CannotMove(f"{self.option} {wrong}")
        self.dsn = dsn
        self.schema = schema
        self.place = name_place(dsn)

    def __str__(self) -> str:
        return self.place

    @contextmanager
    def connect(self, *, autocommit: bool = True) -> Iterator[Raw]:
        """Open a connection, and explain its errors."""
        with drive.translate_errors():
            address = with_deadlines(self.dsn, CONNECT_SECONDS)
            try:
                with psycopg.connect(address, autocommit=autocommit) as connection:
                    if not self.may_be_pooled:
                        self._settle(connection)
                    yield connection
            except pg.InsufficientPrivilege as error:
                raise CannotMove(f"{self} refused: {first_line(error)}. {self.rights}") from error

    def _settle(self, connection: Raw) -> None:
        idle = f"{moving.IDLE_SECONDS}s"
        limits = {"lock_timeout": "5s", "idle_in_transaction_session_timeout": idle}
        terms = Terms("", settings=SETTINGS | AS_TEXT | limits)
        [(is_direct, *_)] = connection.execute(*terms.settle(connection.info.backend_pid))
        if not is_direct:
            raise CannotMove(
                f"{self} is behind a pooler. Give the server's own address: {self.option}, or in "
                "the map"
            )
        if not connection.autocommit:
            connection.commit()

    @contextmanager
    def transaction(self) -> Iterator[Raw]:
        """Open a transaction with the lock of the move."""
        with self.connect(autocommit=False) as connection:
            self.lock(connection)
            yield connection

    def lock(self, connection: Raw) -> None:
        """Take the lock of the move, or raise DatabaseBusy."""
        found = connection.execute(moving.TAKE_LOCK, {"schema": self.schema}).fetchone()
        if found != (True,):
            raise DatabaseBusy(
                f"Another `queue cells move` is working on {self.schema} at {self}. Wait for it. "
                f"If it sleeps, the server ends its transaction after {moving.IDLE_SECONDS} s"
            )

    def ask(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of one statement outside any transaction."""
        with self.connect() as connection:
            return ask(connection, query, *parameters)

    def find_comment(self, connection: Raw, schema: str) -> str | None:
        """Return the comment of a schema, "" if it has none, or None if it does not exist."""
        rows = ask(connection, moving.HAS_SCHEMA, schema)
        return (rows[0][0] or "") if rows else None

    def find_owner(self, connection: Raw) -> str:
        for (owner,) in ask(connection, moving.SCHEMA_OWNER, self.schema):
            return str(owner)
        raise MoveOver(f"{self} has no schema {self.schema} any more")

    def set_comment(self, connection: Raw, schema: str, comment: str | None) -> None:
        text = SQL("NULL") if comment is None else Literal(comment)
        connection.execute(SQL("COMMENT ON SCHEMA {} IS {}").format(Identifier(schema), text))

    def find_cell(self, connection: Raw, schema: str) -> tuple[Any, ...] | None:
        """Return number, of, map and home of the cell in a schema, or None."""
        if ask(connection, moving.HAS_TABLE, schema, "cell") != [(True,)]:
            return None
        query = SQL("SELECT number, of, map, home FROM {}").format(Identifier(schema, "cell"))
        return connection.execute(query).fetchone()

    def table(self, name: str) -> Identifier:
        return Identifier(self.schema, name)


class MapAddress(MoveServer):
    """The new home as the map will name it. A pooler's other clients would get our settings."""

    option = "--to"
    may_be_pooled = True


class OldServer(MoveServer):
    """The server that the cell leaves."""

    option = "--from"

    rights = (
        "The login of the map must own the cell's tables, may CREATE in the database, and has the "
        "attribute REPLICATION"
    )

    @property
    def moved(self) -> str:
        """The name of the schema once it is closed."""
        return f"{self.schema}{MOVED}"

    def find_closed(self, connection: Raw) -> Seal | None:
        """Return the seal of the move for which the cell was closed here, or None."""
        return Seal.read(self.find_comment(connection, self.moved))

    def find_open(self, connection: Raw) -> tuple[str, str] | None:
        """Return the token and the target of the move that has begun, if one has."""
        for token, target in ask(connection, moving.FIND_PUBLICATION, self.schema):
            return token, target
        return None

    def find_slots(self, connection: Raw, token: str) -> list[str]:
        """Return the slots of a move: one, unless movers ran side by side."""
        return [slot for (slot,) in ask(connection, moving.FIND_SLOTS, token)]

    def make_slot(self, token: str) -> None:
        """Create the slot, unless the move was aborted."""
        with self.transaction() as old:
            old.execute(f"SET LOCAL lock_timeout = '{SLOT_SECONDS}s'".encode())
            name = {"token": token, "slot": f"{token}_{secrets.token_hex(3)}"}
            try:
                old.execute(moving.MAKE_SLOT.encode(), name)
            except pg.LockNotAvailable as error:
                raise CannotMove(self.explain_wait()) from error

    def explain_wait(self) -> str:
        """Return what a new slot waits for."""
        found = ", ".join(who for (who,) in self.ask(moving.WRITERS))
        return (
            f"The slot at {self} waits for the end of transactions that began before it: "
            f"{found or 'none now'}. End them, and run this again"
        )

    def note_opening(self, seal: Seal, target: str) -> None:
        """Note that the new home may serve from now on, or raise MoveOver if this one does again.

        It is committed at once. An adoption refuses after it, and the new home opens only after it.
        Another server may have all of the copy too, as its standby has, so only the target opens.
        """
        with self.transaction() as old:
            told = self.find_comment(old, self.moved) or ""
            found = Seal.read(told)
            if found is None or found.token != seal.token:
                raise MoveOver(f"The cell in {self.schema} was opened at {self} again")
            if told != f"{found} was moved to {target}":
                raise CannotMove(
                    f"The cell {told.partition(' ')[2]}. If that server will never serve it, and "
                    f"{target} has the copy, say so at {self}, and run this again: COMMENT ON "
                    f"SCHEMA \"{self.moved}\" IS '{found} was moved to {target}'"
                )
            noted = found._replace(opened="opened")
            self.set_comment(old, self.moved, f"{noted} was moved to {target}")

    def drop_dead_slots(self, prefix: str) -> None:
        """Drop the slots of moves that are over. They would keep the server's WAL forever."""
        with self.connect() as connection:
            for slot, pid in ask(connection, moving.DEAD_SLOTS, prefix):
                for _ in range(5):
                    if pid is not None:
                        ask(connection, "SELECT pg_terminate_backend(%s, 2000)", pid)
                    try:
                        ask(connection, "SELECT pg_drop_replication_slot(%s)", slot)
                        break
                    except pg.UndefinedObject:
                        break
                    except pg.ObjectInUse:
                        rows = ask(connection, moving.DEAD_SLOTS, slot)
                        pid = rows[0][1] if rows else None
                else:
                    raise CannotMove(
                        f"{slot} is in use at {self}, and keeps WAL there. Drop it later: "
                        f"SELECT pg_drop_replication_slot('{slot}')"
                    )


class NewServer(MoveServer):
    """The server to which the cell moves."""

    option = "--admin"

    rights = (
        "The login of --to must be a superuser, or from PostgreSQL 16 on a member of "
        "pg_create_subscription that may CREATE in the database"
    )

    def __init__(self, dsn: str, schema: str, final: str, place: str | None = None) -> None:
        super().__init__(dsn, schema)
        self.final = final  # the name of the schema after the move
        self.place = place or self.place

    @property
    def target(self) -> str:
        """Where the cell will be, in words."""
        return f"{self.place}, schema {self.final}"

    @contextmanager
    def guarded(self, token: str, complete: str | None = None) -> Iterator[Raw]:
        """Open a transaction that can change the copy of this move, and no other.

        Raise MoveOver if the copy is not there, or serves already. With `complete`, it must also
        have all that the old home had when it was closed.
        """
        with self.transaction() as connection:
            self.check_copy(connection, token, complete)
            yield connection

    def check_copy(self, connection: Raw, token: str, complete: str | None = None) -> None:
        found = Seal.read(self.find_comment(connection, self.schema))
        if found is None or found.token != token:
            raise MoveOver(
                f"{self} has no copy of the move {token}: another process has finished or aborted "
                "it. Look: queue cells check"
            )
        if complete not in (None, found.complete):
            raise CannotMove(
                f"{self} has only a part of the copy. Did it fail over, or was it restored? If no "
                "other server has all of it, open the old home again: queue cells adopt"
            )

    def find_slot(self, connection: Raw, token: str) -> str | None:
        """Return the name of the slot that the copy follows, or None if there is no copy yet."""
        rows = ask(connection, moving.FIND_SUBSCRIPTION, token)
        return rows[0][0] if rows else None

    def subscribe(self, connection: Raw, token: str, slot: str, address: str) -> None:
        """Copy what the publication at this address has, and follow it."""
        subscription = SQL(
            "CREATE SUBSCRIPTION {0} CONNECTION {1} PUBLICATION {0} "
            "WITH (create_slot = false, slot_name = {2})"
        )
        connection.execute(WITHIN_SECONDS)
        try:
            connection.execute(
                subscription.format(Identifier(token), Literal(address), Literal(slot))
            )
        except (pg.ConnectionFailure, pg.QueryCanceled) as error:
            raise CannotMove(
                f"{self} cannot reach {name_place(address)}: {first_line(error)}. Name an address "
                "of the old home that both you and the new server reach: --from"
            ) from error

    def drop_subscription(self, connection: Raw, token: str) -> None:
        """Drop the subscription, and leave the slot on the old server alone."""
        if ask(connection, moving.FIND_SUBSCRIPTION, token):
            name = Identifier(token)
            connection.execute(SQL("ALTER SUBSCRIPTION {} DISABLE").format(name))
            connection.execute(SQL("ALTER SUBSCRIPTION {} SET (slot_name = NONE)").format(name))
            connection.execute(WITHIN_SECONDS)
            try:
                connection.execute(SQL("DROP SUBSCRIPTION {}").format(name))
            except pg.QueryCanceled as error:
                raise CannotMove(
                    f"A worker of the subscription {token} at {self} does not end. See "
                    "pg_stat_subscription there, and the old server's, which wait for "
                    "transactions, in its pg_stat_activity. End them, and run this again"
                ) from error


def is_same_database(one: MoveServer, other: MoveServer) -> bool:
    """Return True if two addresses lead to one database, whatever it says about itself."""
    mark = secrets.randbits(62)
    with one.connect(autocommit=False) as holds, other.connect() as looks:
        holds.execute(moving.HOLD_MARK, [mark])
        return ask(looks, moving.LACKS_MARK, mark) == [(False,)]


def ask(connection: Raw, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    given: Any = parameters[0] if parameters and isinstance(parameters[0], dict) else parameters
    return connection.execute(query.encode(), given or None).fetchall()
