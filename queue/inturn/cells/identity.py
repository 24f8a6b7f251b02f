"""What a cell stores about itself, and the check that it is the one that the map expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from inturn.errors import ConfigurationError
from inturn.operations import Operation, Statement

# It asks only the catalogs: an error would end the caller's transaction.
LIST_CELLS = """
SELECT nspname FROM pg_catalog.pg_proc
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace
WHERE proname = 'show_cell' AND nspname = ANY(%s::text[])
  AND has_schema_privilege(pg_namespace.oid, 'USAGE')
  AND has_function_privilege(pg_proc.oid, 'EXECUTE')
"""
SHOW_CELL = "SELECT number, of, map, is_home FROM {schema}.show_cell()"


class WrongCell(ConfigurationError):
    """A database is not the cell that the map of cells expects there."""


class Identity(NamedTuple):
    """The row of the table `cell`."""

    number: int
    of: int
    map: UUID
    is_home: bool


def list_cells(schemas: Sequence[str]) -> Operation[set[str]]:
    """Return which of these schemas are in the database and have the functions of cells."""
    rows = yield Statement(LIST_CELLS, [list(schemas)])
    return {str(schema) for (schema,) in rows}


def show_cell(schema: str) -> Operation[Identity | None]:
    """Return which cell a schema is, or None."""
    if schema not in (yield from list_cells([schema])):
        return None
    rows = yield Statement(SHOW_CELL)
    return Identity(*rows[0]) if rows else None


def check_identity(found: Identity | None, number: int, of: int, map: UUID | None) -> None:
    """Raise WrongCell unless this is cell `number` of `of`, of this map if it is known."""
    if found is None:
        raise WrongCell("is not a cell yet. Make it one: queue cells create")
    if found.of != of:
        raise WrongCell(
            f"is one of {found.of} cells, but the map has {of}. The number of cells never changes: "
            "use the map that the cells were created with"
        )
    if found.number != number:
        raise WrongCell(
            f"is cell {found.number}. Put the cells into the map in the order in which they were "
            "created: queue cells list"
        )
    if map is not None and found.map != map:
        raise WrongCell(
            f"belongs to another map ({found.map}, not {map}). Give it the address of its own cell"
        )
    if not found.is_home:
        raise WrongCell(
            "is a copy: the cell was created in another database, which may still serve it. If "
            "this is its only home now, after pg_upgrade or a restore: queue cells adopt "
            f"--cell {number}"
        )
