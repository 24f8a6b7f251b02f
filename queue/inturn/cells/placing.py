"""From a lock, a job or an id to a cell."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inturn.arguments import check_lock
from inturn.errors import BadArgument
from inturn.tasks.lanes import cell_of, list_locks
from inturn.whole_numbers import HIGHEST_ID, is_whole

if TYPE_CHECKING:
    from inturn.tasks.options import CheckedOptions

STEP = 1024  # of the sequences of ids, and so the highest number of cells


def cell_of_id(id: int, cells: int) -> int:
    """Return the cell of a job or batch, or raise BadArgument if no cell has such ids."""
    if not is_whole(id, 0, HIGHEST_ID):
        raise BadArgument("id", f"{id!r} is not the id of a job or a batch")
    cell = id % STEP
    if cell >= cells:
        raise BadArgument(
            "id", f"{id} is in cell {cell}, but this map has the cells 0 to {cells - 1}"
        )
    return cell


def place_job(options: CheckedOptions, cells: int, home: int | None = None) -> int | None:
    """Return the cell of a job, or None if any will do. Raise BadArgument if it needs several.

    If nothing binds it, it is in `home`, or else where its limit is likely to be.
    """
    named = list(_name_cells(options, cells))
    places = {cell for _, cell in named}
    if len(places) > 1:
        list_of = ", ".join(f"{name} is in cell {cell}" for name, cell in dict(named).items())
        raise BadArgument(
            "cell",
            f"{list_of}. Put what belongs together under one cell key, such as "
            '"{tenant:7}order:9" or cell="tenant:7"',
        )
    if places:
        return places.pop()
    return cell_of(options.limit, cells) if home is None and options.limit is not None else home


def _name_cells(options: CheckedOptions, cells: int) -> Sequence[tuple[str, int]]:
    """Return what binds a job to a cell, with that cell."""
    locks = list_locks(options.lock)
    named = [(f"lock {each!r}", cell_of(each, cells)) for each in locks]
    named += [(f"after job {id}", cell_of_id(id, cells)) for id in options.after or ()]
    if options.batch is not None:
        named.append((f"batch {options.batch}", cell_of_id(options.batch, cells)))
    if options.cell is not None and not locks:
        named.append((f"cell {options.cell!r}", cell_of(options.cell, cells)))
    if not named and options.queueing_lock is not None:
        named.append(("queueing_lock", cell_of(options.queueing_lock, cells)))
    return named


def share_call(
    call: Mapping[str, Any], cells: int, home: int | None = None
) -> dict[int, Mapping[str, Any]]:
    """Return the arguments of a call for each cell that it is about, and each only its own jobs.

    A call that names no job, batch or lane is about all cells, or about `home`.
    """
    for name in ("ids", "job_ids"):
        if call.get(name):
            groups: dict[int, list[int]] = {}
            for id in call[name]:
                groups.setdefault(cell_of_id(id, cells), []).append(id)
            return {cell: {**call, name: tuple(some)} for cell, some in groups.items()}
    for name in ("job_id", "id", "batch", "after"):
        if call.get(name):
            return {cell_of_id(call[name], cells): call}
    lock = check_lock(call.get("lock"))
    if lock is not None:
        return {cell_of(lock, cells): call}
    if home is not None:
        return {home: call}
    _refuse_in_all(call, cells)
    return dict.fromkeys(range(cells), call)


def _refuse_in_all(call: Mapping[str, Any], cells: int) -> None:
    if call.get("before_id") is not None:
        raise BadArgument("before_id", "names a page of one cell. Use app.cell(3), or --cell 3")
    if call.get("per_cell") is False and cells > 1:
        key = str(call["pattern"])
        raise BadArgument(
            "limit",
            f"would hold in each of the {cells} cells alone, so they allow {cells} times as much "
            f"together. Set it where its jobs without a lock are: app.cell(key={key!r}), or --cell "
            f"{cell_of(key, cells)}, and give those with a lock this cell key. Or set it in each: "
            "per_cell=True, or --per-cell",
        )


def refuse_elsewhere(home: object, local: Collection[int], name: str | None = None) -> BadArgument:
    """Return the error about a connection to a database without the cell that is needed."""
    has = f"cell{'s' if len(local) > 1 else ''} {', '.join(map(str, sorted(local)))}"
    what = "this" if name is None else repr(name)
    instead = ", or give it the cell key of a cell there" if local else ""
    return BadArgument(
        "connection",
        f"is to a database with {has if local else 'no cell of this map'}, but {what} is for "
        f"{home}. A job can join a transaction only in its cell's own database. Call it without "
        f"connection= after your commit{instead}",
    )
