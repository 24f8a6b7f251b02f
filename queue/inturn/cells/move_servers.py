"""The two servers of a move, and what can be seen on them.

Whatever must not happen late is in one transaction with the check that it is still right. Such a
transaction holds its server's lock of the move, and the server ends it if it idles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.sql import SQL, Composable, Identifier, Literal

from inturn.cells.map import name_place
from inturn.database import drive
from inturn.database.conditions import first_line
from inturn.errors import ConfigurationError, DatabaseBusy
from inturn.operations.engine import moving
from inturn.operations.engine.moving import MOVED, PREFIX

Raw = psycopg.Connection[tuple[Any, ...]]


class CannotMove(ConfigurationError):
    """A cell cannot be moved like this. Nothing that serves it was changed."""


class MoveOver(CannotMove):
    """Another process has finished or aborted this move."""


class MoveServer:
    """A database, and the schema in which the cell lies there during the move."""

    rights = ""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema
        self.place = name_place(dsn)

    def __str__(self) -> str:
        return self.place

    @contextmanager
    def connect(self, *, autocommit: bool = True) -> Iterator[Raw]:
        """Open a connection, and explain its errors."""
        with (
            drive.translate_errors(),
            self._explain_rights(),
            psycopg.connect(self.dsn, autocommit=autocommit) as connection,
        ):
            connection.execute("SET lock_timeout = '5s'")
            connection.execute("SET client_min_messages = warning")
            connection.execute(
                f"SET idle_in_transaction_session_timeout = '{moving.IDLE_SECONDS}s'".encode()
            )
            if not autocommit:
                connection.commit()
            yield connection

    @contextmanager
    def _explain_rights(self) -> Iterator[None]:
        try:
            yield
        except pg.InsufficientPrivilege as error:
            raise CannotMove(f"{self} refused: {first_line(error)}. {self.rights}") from error

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

    def identify(self, connection: Raw) -> str:
        """Return the name of this database; see the function cell_home."""
        [(*_, database)] = ask(connection, moving.ABOUT_SERVER)
        try:
            [(system,)] = ask(connection, moving.SYSTEM)
        except (pg.InsufficientPrivilege, pg.UndefinedFunction):
            connection.rollback()
            system = "?"
        return f"{system}/{database}"

    def table(self, name: str) -> Identifier:
        return Identifier(self.schema, name)


class OldServer(MoveServer):
    """The server that the cell leaves."""

    rights = (
        "The login of the map must own the cell's tables, may CREATE in the database, and has the "
        "attribute REPLICATION"
    )

    @property
    def moved(self) -> str:
        """The name of the schema once it is closed."""
        return f"{self.schema}{MOVED}"

    def find_closed(self, connection: Raw) -> str | None:
        """Return the token of the move for which the cell was closed here, or None."""
        if self.find_comment(connection, self.schema) is not None:
            return None
        token = (self.find_comment(connection, self.moved) or "").partition(" ")[0]
        return token if token.startswith(PREFIX) else None

    def find_open(self, connection: Raw) -> tuple[str, dict[str, str]] | None:
        """Return the token and the target of the move that has begun, if one has."""
        for token, target in ask(connection, moving.FIND_PUBLICATION, self.schema):
            return token, json.loads(target)
        return None

    def measure(self) -> int:
        """Return the size of the cell in bytes."""
        [(size,)] = self.ask(moving.SIZE, self.schema)
        return int(size)

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

    rights = (
        "The login of --to must be a superuser, or from PostgreSQL 16 on a member of "
        "pg_create_subscription that may CREATE in the database"
    )

    def __init__(self, dsn: str, schema: str, final: str) -> None:
        super().__init__(dsn, schema)
        self.final = final  # the name of the schema after the move

    @contextmanager
    def guarded(self, token: str) -> Iterator[Raw]:
        """Open a transaction that can change the copy of this move, and no other.

        Raise MoveOver if the copy is not there, or serves already.
        """
        with self.transaction() as connection:
            if self.find_comment(connection, self.schema) != token:
                raise MoveOver(
                    f"{self} has no copy of the move {token}: another process has finished or "
                    "aborted it. Look: queue cells check"
                )
            yield connection

    def has_subscription(self, connection: Raw, token: str) -> bool:
        return ask(connection, moving.HAS_SUBSCRIPTION, token) == [(True,)]

    def subscribe(self, connection: Raw, token: str, address: str) -> None:
        """Copy what the publication at this address has, and follow it."""
        subscription = SQL(
            "CREATE SUBSCRIPTION {0} CONNECTION {1} PUBLICATION {0} "
            "WITH (create_slot = false, slot_name = {2})"
        )
        try:
            connection.execute(
                subscription.format(Identifier(token), Literal(address), Literal(token))
            )
        except pg.ConnectionFailure as error:
            raise CannotMove(
                f"{self} cannot reach {name_place(address)}: {first_line(error)}. Name the address "
                "of the old home as the new server reaches it: --from"
            ) from error

    def drop_subscription(self, connection: Raw, token: str) -> None:
        """Drop the subscription, and leave the slot on the old server alone."""
        if self.has_subscription(connection, token):
            name = Identifier(token)
            connection.execute(SQL("ALTER SUBSCRIPTION {} DISABLE").format(name))
            connection.execute(SQL("ALTER SUBSCRIPTION {} SET (slot_name = NONE)").format(name))
            connection.execute(SQL("DROP SUBSCRIPTION {}").format(name))

    def find_cell(self, connection: Raw, schema: str) -> tuple[Any, ...] | None:
        """Return number, of, map and home of the cell in a schema, or None."""
        if ask(connection, moving.HAS_TABLE, schema, "cell") != [(True,)]:
            return None
        query = SQL("SELECT number, of, map, home FROM {}").format(Identifier(schema, "cell"))
        return connection.execute(query).fetchone()


def ask(connection: Raw, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    given: Any = parameters[0] if parameters and isinstance(parameters[0], dict) else parameters
    return connection.execute(query.encode(), given or None).fetchall()


def join(names: Sequence[Composable]) -> Composable:
    return SQL(", ").join(names)
