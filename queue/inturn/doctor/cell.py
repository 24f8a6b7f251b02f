"""What can be wrong with a cell, beside what can be wrong with any schema."""

from collections.abc import Iterator

from inturn.doctor.finding import MOST, Finding, name_some
from inturn.doctor.reader import Reader
from inturn.formatting import size, visible
from inturn.operations.changes import limits
from inturn.operations.engine import cells
from inturn.tasks.lanes import cell_of


def examine_cell(reader: Reader) -> Iterator[Finding]:
    """Yield what is wrong with this cell, or with moves from its database."""
    mine = reader.run(cells.show_cell(reader.schema))
    if mine is None:
        return
    found = reader.run(cells.list_newest_keys(MOST))
    locks = sorted({lock for lock, _ in found if lock is not None})
    if lost := [visible(lock) for lock in locks if cell_of(lock, mine.of) != mine.number]:
        detail = (
            f"these lanes are in cell {mine.number}, but belong to others, where other jobs of "
            f"theirs may run at the same time: {name_some(lost)}"
        )
        advice = "producers in SQL must call cell_of; see docs/cells.md"
        yield Finding("cells", "fail", detail, advice)
    yield from _name_unlimited(reader, sorted({key for _, key in found if key is not None}))
    for slot in reader.run(cells.list_idle_slots()):
        if slot.is_over or slot.cell == mine.number:
            yield _describe_slot(slot)


def _name_unlimited(reader: Reader, keys: list[str]) -> Iterator[Finding]:
    patterns = [each.pattern for each in reader.run(limits.list_limits(MOST))] if keys else []
    whole = {each for each in patterns if not each.endswith("*")}
    starts = tuple(each.removesuffix("*") for each in patterns if each.endswith("*"))
    free = [visible(key) for key in keys if key not in whole and not key.startswith(starts)]
    if free:
        detail = f"jobs of these keys run without a limit in this cell: {name_some(free)}"
        advice = "if another cell has it, give the jobs its cell key; see docs/cells.md"
        yield Finding("limits", "warn", detail, advice)


def _describe_slot(slot: cells.MoveSlot) -> Finding:
    keeps = f"the server keeps {size(slot.kept)} of WAL for it"
    if slot.is_over:
        who = "a copy by a move or by others" if slot.cell is None else "a move"
        detail = f"{who} has left its replication slot {slot.name} behind, and {keeps}"
        return Finding("moves", "fail", detail, f"SELECT pg_drop_replication_slot('{slot.name}');")
    detail = f"the move of cell {slot.cell} is interrupted, and {keeps}"
    advice = "run queue cells move again, or end it with --abort; see docs/cells-moving.md"
    return Finding("moves", "warn", detail, advice)
