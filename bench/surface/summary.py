"""Turn readings into one line for each shape: our costs, and the ratios to the peers.

A ratio compares two readings of the same round, and the line has the median of these ratios. The
spread is the range of the rounds' readings as a share of their median: it tells how far noise alone
moves a number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.peers.registry import FLOOR, OURS
from bench.surface.reading import Reading
from bench.surface.run import Result
from bench.surface.shapes import Shape

Quantity = Callable[[Reading], float]
QUANTITIES: dict[str, Quantity] = {
    "rate": lambda reading: reading.rate,
    "server": lambda reading: reading.server_us,
    "worker": lambda reading: reading.worker_us,
    "wall": lambda reading: reading.wall_us,
    "calls": lambda reading: reading.calls_per_job,
    "wal": lambda reading: reading.wal_per_job,
    "enqueue": lambda reading: reading.shape.jobs / reading.enqueued_in,
}


@dataclass
class Cell:
    """The readings of one peer for one shape, cold or warm, by round."""

    readings: list[Reading] = field(default_factory=list)

    def of(self, name: str) -> float:
        return median(QUANTITIES[name](reading) for reading in self.readings)

    @property
    def spread(self) -> float:
        rates = [reading.rate for reading in self.readings]
        return (max(rates) - min(rates)) / median(rates)

    @property
    def right(self) -> bool:
        return all(reading.verdict.fine for reading in self.readings)

    @property
    def done(self) -> bool:
        return all(reading.done for reading in self.readings)

    @property
    def mark(self) -> str:
        """Return how the rate is to be read: cut off, wrong, or neither."""
        return ("" if self.done else "*") + ("" if self.right else " WRONG")


Cells = dict[tuple[Shape, str], dict[str, Cell]]  # by shape and state, then by peer


def cells(results: Iterable[Result]) -> Cells:
    found: Cells = defaultdict(lambda: defaultdict(Cell))
    for result in results:
        if isinstance(result, Reading):
            found[result.shape, result.state][result.peer].readings.append(result)
    return {key: dict(by_peer) for key, by_peer in found.items()}


def ratio(ours: Cell, theirs: Cell, name: str) -> float:
    """Return the median of our number divided by theirs, round by round."""
    quantity = QUANTITIES[name]
    by_round = {reading.round: quantity(reading) for reading in theirs.readings}
    pairs = [(quantity(one), by_round.get(one.round)) for one in ours.readings]
    return median([a / b for a, b in pairs if b] or [0.0])


@dataclass(frozen=True)
class Rival:
    """The best of some peers, and how many times as fast inturn is."""

    peer: str
    cell: Cell
    times: float

    def __str__(self) -> str:
        return f"{self.times:.2f} {self.peer}{self.cell.mark}"


@dataclass(frozen=True)
class Line:
    shape: Shape
    state: str
    ours: Cell
    free: dict[str, float]  # by quantity: our cost, as a multiple of a free job's
    fastest: Rival | None
    right: Rival | None  # the fastest of the peers that are right


def lines(found: Cells, shapes: Sequence[Shape], state: str) -> list[Line]:
    return [_line(found, shape, state) for shape in shapes if OURS in found.get((shape, state), {})]


def _line(found: Cells, shape: Shape, state: str) -> Line:
    by_peer = found[shape, state]
    ours = by_peer[OURS]
    rivals = {peer: cell for peer, cell in by_peer.items() if is_rival(peer)}
    right = {peer: cell for peer, cell in rivals.items() if cell.right}
    base = found.get((shape.free, state), {}).get(OURS)
    free = {name: ratio(ours, base, name) for name in ("server", "worker", "wall")} if base else {}
    return Line(shape, state, ours, free, _best(rivals, ours), _best(right, ours))


def is_rival(peer: str) -> bool:
    return peer != FLOOR and not peer.startswith(OURS)


def _best(rivals: dict[str, Cell], ours: Cell) -> Rival | None:
    if not rivals:
        return None
    peer = max(rivals, key=lambda peer: rivals[peer].of("rate"))
    return Rival(peer, rivals[peer], ratio(ours, rivals[peer], "rate"))


# A ratio that misses its bar is listed below the table. Each has its shape, so its size.
MOST_FREE = 3.0  # times a free job of the same number of jobs
LEAST_FAST = 1.0  # times the fastest peer, for these shapes
FASTEST_TOO = ("free20000", "free100000", "1000x10", "10000x2")
LEAST_RIGHT = 2.0  # times the fastest peer that is right, for the other shapes with lanes


def misses(line: Line) -> list[str]:
    """Return what the line misses of the bars, in words."""
    where = f"{line.shape} {line.state}"
    found = [
        f"{where}: {times:.1f} × the {name} time of a free job"
        for name, times in line.free.items()
        if name != "wall" and times > MOST_FREE
    ]
    if str(line.shape) in FASTEST_TOO:
        if line.fastest and line.fastest.times < LEAST_FAST:
            found.append(f"{where}: {line.fastest.times:.2f} × {line.fastest.peer}, the fastest")
    elif line.shape.lanes and line.right and line.right.times < LEAST_RIGHT:
        found.append(f"{where}: {line.right.times:.2f} × {line.right.peer}, the fastest right one")
    if not (line.ours.right and line.ours.done):
        found.append(f"{where}: inturn itself is{line.ours.mark or ' not done'}")
    return found
