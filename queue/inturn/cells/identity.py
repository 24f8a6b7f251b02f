"""The check that a database is the cell that the map expects there."""

from __future__ import annotations

from uuid import UUID

from inturn.errors import WrongCell
from inturn.operations.engine.cells import CellIdentity


def check_identity(found: CellIdentity | None, number: int, of: int, map: UUID | None) -> None:
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
