"""What a move needs, checked before it changes anything. Each refusal names the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.sql import SQL

from inturn.cells.move_servers import CannotMove, MapAddress, NewServer, OldServer, Raw, ask
from inturn.operations.engine import moving
from inturn.operations.engine.moving import MOVED, PREFIX
from inturn.sql import revision

if TYPE_CHECKING:
    from inturn.cells.connector import CellConnector

OLDEST = 150000


def check_servers(old: OldServer, new: NewServer, to: MapAddress, home: CellConnector) -> None:
    """Raise CannotMove if the servers, the logins or the schemas do not suffice."""
    home.connect().close()  # it is this cell, and the home
    with old.connect() as source, new.connect() as target:
        version, level, slots, *_ = ask(source, moving.ABOUT_SERVER)[0]
        newer, _, origins, workers = ask(target, moving.ABOUT_SERVER)[0]
        begun = old.find_open(source)
        _check_versions(old, new, version, newer)
        _check_encodings(old, new, source, target)
        if level != "logical":
            raise CannotMove(
                f"{old} has wal_level = {level}. Set wal_level = logical there, and restart it"
            )
        if slots < _count_slots(old, source, target, begun and begun[0]):
            raise CannotMove(
                f"{old} has no replication slots left for the move. Drop unused ones (see "
                "pg_replication_slots), or raise max_replication_slots and max_wal_senders, and "
                "restart it"
            )
        if begun is None and (origins < 2 or workers < 2):
            raise CannotMove(
                f"{new} has no replication slots left for the move. Raise max_replication_slots "
                "and max_logical_replication_workers, and restart it"
            )
        if ask(source, moving.MAY_REPLICATE) != [(True,)]:
            raise CannotMove(
                f"The login of the map at {old} cannot replicate. As a superuser there: "
                "ALTER ROLE … REPLICATION"
            )
        if ask(source, moving.MAY_WATCH) != [(True,)]:
            raise CannotMove(
                f"The login of the map at {old} cannot see its standbys. As a superuser there: "
                "GRANT pg_monitor TO …"
            )
        if lacks := [name for (name,) in ask(source, moving.NOT_OWNED, {"schema": old.schema})]:
            raise CannotMove(f"{old.rights}. It lacks {', '.join(lacks[:3])} at {old}")
        _check_schema(old, source)
        _check_roles(old, new, to, source, target)
        _check_target(new, target, begun is not None)


def _check_versions(old: OldServer, new: NewServer, version: int, newer: int) -> None:
    if min(version, newer) < OLDEST:
        raise CannotMove("A move needs PostgreSQL 15 or later on both servers. Upgrade it first")
    if version // 10000 > newer // 10000:
        raise CannotMove(
            f"{old} has PostgreSQL {version // 10000}, newer than {newer // 10000} at {new}. "
            "Upgrade the new server first"
        )


def _check_encodings(old: OldServer, new: NewServer, source: Raw, target: Raw) -> None:
    """Refuse another encoding: it may lack characters, and the sums of the rows would differ."""
    [(needed,)], [(given,)] = ask(source, moving.ENCODING), ask(target, moving.ENCODING)
    if needed != given:
        raise CannotMove(
            f"{new} has the encoding {given}, and {old} has {needed}. Name a database with that: "
            f"CREATE DATABASE … ENCODING '{needed}' TEMPLATE template0"
        )


def _count_slots(old: OldServer, source: Raw, target: Raw, token: str | None) -> int:
    """Return how many slots the old server must still make: for the move, and to copy tables."""
    if token is None:
        return 2
    [(ready, tables, *_)] = ask(target, moving.COPIED, {"token": token})
    return (not old.find_slots(source, token)) + (not tables or ready < tables)


def _check_schema(old: OldServer, source: Raw) -> None:
    query = SQL("SELECT version_num FROM {}").format(old.table("schema_version"))
    row = source.execute(query).fetchone()
    if row != (revision(),):
        raise CannotMove(
            f"The cell at {old} is at revision {row and row[0]}, and this version makes "
            f"{revision()}. Both must be equal: run queue migrate, or the version that did"
        )


def _check_roles(old: OldServer, new: NewServer, to: MapAddress, source: Raw, target: Raw) -> None:
    query = SQL("SELECT role FROM {}").format(old.table("granted_roles"))
    roles = [role for (role,) in source.execute(query).fetchall()]
    if to.dsn != new.dsn:
        roles.append(old.find_owner(source))
    missing = [role for (role,) in ask(target, moving.MISSING_ROLES, roles)]
    if missing:
        raise CannotMove(
            f"{new} lacks the roles {', '.join(missing)}, which may use the cell. Create them: "
            "queue schema grants"
        )
    if to.dsn != new.dsn and to.ask(moving.MAY_SERVE, roles) != [(True,)]:
        raise CannotMove(
            f"The login of --to may not use the cell: it is none of {', '.join(roles)}. Make it a "
            "member of one of these roles"
        )


def _check_target(new: NewServer, target: Raw, has_begun: bool) -> None:
    moved = f"{new.schema}{MOVED}"
    if new.find_comment(target, moved) is not None:
        raise CannotMove(
            f"{new} has the schema {moved}, left when the cell moved away. If all maps name its "
            f'new home: DROP SCHEMA "{moved}" CASCADE'
        )
    found = new.find_comment(target, new.schema)
    if found is not None and not has_begun:
        raise CannotMove(
            f"{new} has a copy of an aborted move. Delete it: queue cells move … --abort"
            if found.startswith(PREFIX)
            else f"{new} already has a schema {new.schema}. Name another database, or rename the "
            "schema there. During the move, the copy has this name"
        )
    if new.final != new.schema and new.find_comment(target, new.final) is not None:
        raise CannotMove(f"{new} already has a schema {new.final}. Name another with --schema")
