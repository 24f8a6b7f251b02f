"""Turn readings into a table of medians and ratios.

A ratio compares two readings of the same round. The table shows the median of these ratios.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.peers.registry import BASE, FLOOR, OURS
from bench.rows.row import Row
from bench.run import LACKS, Measured


@dataclass
class Cell:
    """The results of one peer in one row."""

    values: list[float] = field(default_factory=list)  # one per round
    notes: list[str] = field(default_factory=list)

    @property
    def competes(self) -> bool:
        return bool(self.values) and not self.notes

    def short(self, row: Row) -> str:
        """Return the median as text, marked if a run was wrong or unfinished."""
        if not self.values:
            return self.notes[0].split(":")[0] if self.notes else "–"
        note = self.notes[0] if self.notes else ""
        mark = " WRONG" if "WRONG" in note else " *" if note else ""
        return f"{median(self.values):,.{row.digits}f}{mark}"


Cells = dict[str, dict[str, Cell]]  # by row, then by peer


def cells(results: Iterable[Measured]) -> Cells:
    found: Cells = defaultdict(lambda: defaultdict(Cell))
    for measured in results:
        cell = found[measured.row][measured.peer]
        note = measured.why
        if measured.reading is not None:
            cell.values.append(measured.reading.value)
            note = measured.reading.note
        if note and note not in cell.notes:
            cell.notes.append(note)
    return found


def ratio(row: Row, ours: Cell, theirs: Cell) -> float | None:
    """Return how many times as good ours is: the median over the rounds, or None."""
    if not (ours.competes and theirs.competes):
        return None
    pairs = [pair for pair in zip(ours.values, theirs.values, strict=False) if all(pair)]
    if not pairs:
        return None
    return median(a / b if row.more else b / a for a, b in pairs)


def best_peer(row: Row, found: dict[str, Cell]) -> str | None:
    """Return the best peer with a correct result, leaving out inturn and bare SQL."""
    rivals = [
        p for p, cell in found.items() if cell.competes and p != FLOOR and not p.startswith(OURS)
    ]
    if not rivals:
        return None
    best = max if row.more else min
    return best(rivals, key=lambda p: median(found[p].values))


@dataclass(frozen=True)
class Line:
    """A line of the table: the row, a text for each peer, the best peer, and our ratios.

    The ratios compare inturn with the best peer, bare SQL and the other checkout.
    """

    row: Row
    texts: dict[str, str]
    best: str | None
    to_best: float | None
    to_floor: float | None
    to_base: float | None
    notes: list[str]  # the errors, each with its peer


def lines(rows: Sequence[Row], found: Cells) -> list[Line]:
    return [_line(row, found[row.name]) for row in rows if row.name in found]


def _line(row: Row, found: dict[str, Cell]) -> Line:
    best = best_peer(row, found)
    ours = found.get(OURS, Cell())
    to_best = ratio(row, ours, found[best]) if best else None
    to_floor = ratio(row, ours, found[FLOOR]) if FLOOR in found else None
    to_base = ratio(row, ours, found[BASE]) if BASE in found else None
    notes = [
        f"{row.name}, {peer}: {note}"
        for peer, cell in found.items()
        for note in cell.notes
        if note not in LACKS.values()
    ]
    texts = {peer: cell.short(row) for peer, cell in found.items()}
    return Line(row, texts, best, to_best, to_floor, to_base, notes)
