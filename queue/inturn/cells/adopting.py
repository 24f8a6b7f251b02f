"""Make what is left of a cell its only home, after its other home was lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from psycopg.sql import SQL, Identifier

from inturn.cells.map import name_place
from inturn.cells.move_servers import (
    CannotMove,
    MoveOver,
    NewServer,
    OldServer,
    Raw,
    Seal,
    ask,
    is_same_database,
)
from inturn.cells.move_tables import list_tables, open_schema
from inturn.errors import DatabaseUnavailable
from inturn.operations.engine import moving

HIDDEN = "an address that only superusers see in pg_subscription, so it was not asked"


def adopt(dsn: str, schema: str, agree: Callable[[str], object]) -> None:
    """Make this database the only home of its cell, whatever it was before.

    It may be the copy of a move whose old server is lost, the home that such a move closed, if the
    new server is lost, or a copy by pg_upgrade, a dump or CREATE DATABASE. `agree` is told where
    the other home was, or "" if that is unknown, and raises if that one may still serve.
    """
    from inturn.schema.migrate import adopt_cell

    old, new = OldServer(dsn, schema), NewServer(dsn, schema, schema)
    with old.connect() as connection:
        closed = old.find_closed(connection)
        moved = old.find_comment(connection, old.moved) or ""
        copied = Seal.read(old.find_comment(connection, schema))
    if copied is not None:
        source = _find_source(new, copied.token)
        agree(HIDDEN if source is None else name_place(source))
        _adopt_copy(new, copied.token, source)
    elif closed is not None:
        agree(moved.partition(" was moved to ")[2])
        _open_again(old, closed)
    else:
        agree("")
        adopt_cell(dsn, schema)


def _adopt_copy(new: NewServer, token: str, source: str | None) -> None:
    if source is not None:
        _check_is_lost(OldServer(source, new.schema), new)
    with new.guarded(token) as connection:
        _check_copy(new, connection, token)
        new.drop_subscription(connection, token)
        _make_home(connection, new)


def _open_again(old: OldServer, closed: Seal) -> None:
    with old.transaction() as connection:
        told = old.find_comment(connection, old.moved)
        if Seal.read(told) != closed:
            raise MoveOver(f"Another process has opened {old.schema} again, or at its new home")
        if closed.opened:
            raise CannotMove(_explain_opened(old, closed, str(told).partition(" ")[2]))
        # First, since nothing would lead to the slot later. The copy needs it no more.
        old.drop_dead_slots(closed.token)
        names = Identifier(old.moved), Identifier(old.schema)
        connection.execute(SQL("ALTER SCHEMA {} RENAME TO {}").format(*names))
        _make_home(connection, NewServer(old.dsn, old.schema, old.schema))


def _explain_opened(old: OldServer, seal: Seal, moved: str) -> str:
    back = f"{seal._replace(opened='')} {moved}"
    return (
        f"The cell {moved}, and may have worked there. Name that home in the map. If that is lost "
        "for good, and what it stored may be lost too, say this here, and run this again: "
        f"COMMENT ON SCHEMA \"{old.moved}\" IS '{back}'"
    )


def _make_home(connection: Raw, server: NewServer) -> None:
    open_schema(connection, server, None)  # and sets the search_path
    connection.execute(moving.RAISE_SEQUENCES.encode())


def _find_source(new: NewServer, token: str) -> str | None:
    """Return the address of the old home, if this login may see it."""
    with suppress(CannotMove):
        for (address,) in new.ask(moving.SOURCE, token):
            return str(address)
    return None


def _check_is_lost(old: OldServer, new: NewServer) -> None:
    """Raise CannotMove if the old home answers: it may serve, even if the copy is cut off."""
    with suppress(DatabaseUnavailable), old.connect() as connection:
        homes = [old.find_comment(connection, name) for name in (old.schema, old.moved)]
        if homes != [None, None] and not is_same_database(old, new):
            raise CannotMove(
                f"The old home at {old} answers, so it is not lost. Finish the move, or end it "
                "with --abort: queue cells move"
            )


def _check_copy(server: NewServer, connection: Raw, token: str) -> None:
    [(ready, tables, *_)] = ask(connection, moving.COPIED, {"token": token})
    if ready != tables or tables != len(list_tables()):
        raise CannotMove(f"The copy at {server} is not complete, so it cannot replace the old home")
    [(received,)] = ask(connection, moving.RECEIVED, token)
    if received is not None:
        raise CannotMove(
            f"{server} still receives what the old home writes, so that is not lost. Finish the "
            "move: queue cells move. If you have just stopped the old server, wait a minute"
        )
