"""Make what is left of a cell its only home, after its other home was lost."""

from __future__ import annotations

from psycopg.sql import SQL, Identifier

from inturn.cells.move_servers import CannotMove, MoveOver, NewServer, OldServer, Raw, Seal, ask
from inturn.cells.move_tables import list_tables, open_schema
from inturn.operations.engine import moving


def adopt(dsn: str, schema: str) -> None:
    """Make this database the only home of its cell, whatever it was before.

    It may be the copy of a move whose old server is lost, the home that such a move closed, if the
    new server is lost, or a copy by pg_upgrade, a dump or CREATE DATABASE.
    """
    from inturn.schema.migrate import adopt_cell

    old = OldServer(dsn, schema)
    with old.connect() as connection:
        closed = old.find_closed(connection)
        copied = Seal.read(old.find_comment(connection, schema))
    if copied is not None:
        _adopt_copy(NewServer(dsn, schema, schema), copied.token)
    elif closed is not None:
        _open_again(old, closed)
    else:
        adopt_cell(dsn, schema)


def _adopt_copy(new: NewServer, token: str) -> None:
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
        names = Identifier(old.moved), Identifier(old.schema)
        connection.execute(SQL("ALTER SCHEMA {} RENAME TO {}").format(*names))
        _make_home(connection, NewServer(old.dsn, old.schema, old.schema))
    old.drop_dead_slots(closed.token)


def _explain_opened(old: OldServer, seal: Seal, moved: str) -> str:
    back = f"{seal._replace(opened='')} {moved}"
    return (
        f"The cell {moved}, and may have worked there. Name that home in the map. If that is lost "
        "for good, and what it stored may be lost too, say this here, and run this again: "
        f"COMMENT ON SCHEMA \"{old.moved}\" IS '{back}'"
    )


def _make_home(connection: Raw, server: NewServer) -> None:
    path = SQL("SET LOCAL search_path = {}, pg_temp")
    connection.execute(path.format(Identifier(server.schema)))
    connection.execute(moving.RAISE_SEQUENCES.encode())
    open_schema(connection, server, None)


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
