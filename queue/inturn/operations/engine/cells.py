"""Which cell a schema is; see docs/cells.md."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from inturn.operations import Operation, Statement, find

# It asks only the catalogs: an error would end the caller's transaction.
LIST_CELLS = """
SELECT nspname FROM pg_catalog.pg_proc
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace
WHERE proname = 'show_cell' AND nspname = ANY(%s::text[])
  AND has_schema_privilege(pg_namespace.oid, 'USAGE')
  AND has_function_privilege(pg_proc.oid, 'EXECUTE')
"""
NEW_HOME = """
SELECT substring(obj_description(oid, 'pg_namespace') FROM '^inturn_move_[^ ]+ (.*)')
FROM pg_catalog.pg_namespace WHERE nspname = %s
"""
SHOW_CELL = "SELECT number, of, map, is_home FROM {schema}.show_cell()"
NEWEST_KEYS = """
SELECT DISTINCT lock, limit_key FROM (
    SELECT lock, limit_key FROM {schema}.live_jobs
    WHERE lock IS NOT NULL OR limit_key IS NOT NULL ORDER BY id DESC LIMIT %s
) AS newest
"""


# Of moves from this database that no subscription reads now. One that is over has no publication.
# The copies of single tables have slots of PostgreSQL's own, which tell no cell.
IDLE_SLOTS = """
SELECT slot_name::text, (regexp_match(slot_name, '^inturn_move_(\\d+)'))[1]::int,
    pg_current_wal_lsn() - restart_lsn,
    NOT EXISTS (SELECT FROM pg_catalog.pg_publication
        WHERE starts_with(pubname, 'inturn_move_')
          AND (starts_with(slot_name, pubname) OR starts_with(slot_name, 'pg_')))
FROM pg_catalog.pg_replication_slots
WHERE database = current_database() AND NOT active
  AND slot_name ~ '^(inturn_move_|pg_\\d+_sync_)'
"""


class MoveSlot(NamedTuple):
    """A replication slot of a move, and how many bytes of WAL the server keeps for it."""

    name: str
    cell: int | None
    kept: int
    is_over: bool


class CellIdentity(NamedTuple):
    """The row of the table `cell`."""

    number: int
    of: int
    map: UUID
    is_home: bool


def list_cells(schemas: Sequence[str]) -> Operation[set[str]]:
    """Return which of these schemas are in the database and have the functions of cells."""
    rows = yield Statement(LIST_CELLS, [list(schemas)])
    return {str(schema) for (schema,) in rows}


def show_cell(schema: str) -> Operation[CellIdentity | None]:
    return (yield from read_cell()) if (yield from list_cells([schema])) else None


def read_cell() -> Operation[CellIdentity | None]:
    """Return which cell a schema is that has the functions of cells."""
    return find(CellIdentity, SHOW_CELL)


def find_new_home(schema: str) -> Operation[str | None]:
    """Return "was moved to …" if this schema was a cell that is now elsewhere, or None."""
    rows = yield Statement(NEW_HOME, [f"{schema}_moved"])
    return str(rows[0][0]) if rows and rows[0][0] else None


def find_cell(schema: str) -> Operation[CellIdentity | str | None]:
    """Return which cell a schema is, or where it has moved."""
    found = yield from show_cell(schema)
    return found if found is not None else (yield from find_new_home(schema))


def list_idle_slots() -> Operation[list[MoveSlot]]:
    """Return the slots of moves that are interrupted, or have left them behind."""
    rows = yield Statement(IDLE_SLOTS)
    return [MoveSlot(name, cell, int(kept or 0), is_over) for name, cell, kept, is_over in rows]


def list_newest_keys(limit: int) -> Operation[list[tuple[str | None, str | None]]]:
    """Return the locks and keys of limits of so many live jobs, the newest."""
    return list((yield Statement(NEWEST_KEYS, [limit])))
