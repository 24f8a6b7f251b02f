"""The shapes of the surface, their names, and the selections that `--only` knows.

`1000x10` means 1,000 lanes with ten jobs each, and `free20000` means 20,000 jobs without a lane.
Suffixes change the rest: `1000x10/4w/128q/8p/never` has four workers, 128 queues, eight priorities,
and its tables are never analysed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from bench.arena import Moment
from bench.jobs import Load

MOST_JOBS = 200_000
LANES = (1, 10, 100, 1_000, 10_000, 100_000)
DEPTHS = (1, 10, 100, 1_000)
IN_A_CALL = 1_000  # jobs that one bulk call enqueues
NAME = re.compile(r"(?:(?P<lanes>\d+)x(?P<depth>\d+)|free(?P<free>\d+))")
SUFFIX = re.compile(r"(?P<number>\d+)(?P<kind>[wqp])")


@dataclass(frozen=True)
class Shape:
    """The jobs of one point, and the circumstances in which they run."""

    lanes: int  # 0: free jobs
    jobs: int
    workers: int = 1
    queues: int = 1
    priorities: int = 1
    moment: Moment = Moment.EMPTY

    @property
    def load(self) -> Load:
        return Load(self.lanes, self.queues, self.priorities)

    @property
    def depth(self) -> int:
        return self.jobs // self.lanes if self.lanes else 0

    @property
    def calls(self) -> int:
        return -(-self.jobs // IN_A_CALL)

    @property
    def free(self) -> Shape:
        """The shape to compare with: as many free jobs, in one queue, of one priority."""
        return replace(self, lanes=0, queues=1, priorities=1)

    @property
    def is_plain(self) -> bool:
        """True if it belongs to the surface: one queue, one priority, analysed when empty."""
        return self == Shape(self.lanes, self.jobs, self.workers)

    def __str__(self) -> str:
        name = f"{self.lanes}x{self.depth}" if self.lanes else f"free{self.jobs}"
        counts = ((self.workers, "w"), (self.queues, "q"), (self.priorities, "p"))
        suffixes = [f"{count}{kind}" for count, kind in counts if count > 1]
        moments = [] if self.moment is Moment.EMPTY else [self.moment.value]
        return "/".join([name, *suffixes, *moments])


def parse(name: str) -> Shape:
    """Return the shape of this name. Raise ValueError if there is none."""
    base, *suffixes = name.split("/")
    found = NAME.fullmatch(base)
    if found is None:
        raise ValueError(f"{name!r} is not a valid shape")
    lanes = int(found["lanes"] or 0)
    shape = Shape(lanes, int(found["free"] or 0) or lanes * int(found["depth"] or 0))
    for suffix in suffixes:
        shape = _with_suffix(shape, suffix)
    if shape.jobs == 0:
        raise ValueError(f"{name!r} has no jobs")
    return shape


def _with_suffix(shape: Shape, suffix: str) -> Shape:
    found = SUFFIX.fullmatch(suffix)
    if found is None:
        return replace(shape, moment=Moment(suffix))
    number = int(found["number"])
    match found["kind"]:
        case "w":
            return replace(shape, workers=number)
        case "q":
            return replace(shape, queues=number)
        case _:
            return replace(shape, priorities=number)


def at_depth(lanes: int, depth: int) -> Shape:
    """Return lanes of this depth, or as deep as the largest number of jobs allows."""
    return Shape(lanes, lanes * min(depth, MOST_JOBS // lanes))


def column_of(shape: Shape) -> int:
    """Return the depth that the shape stands for, which is more than it has if it was cut short."""
    if shape.jobs == MOST_JOBS:
        return min((depth for depth in DEPTHS if depth >= shape.depth), default=shape.depth)
    return shape.depth


def _grid(workers: int = 1) -> tuple[Shape, ...]:
    shapes = (at_depth(lanes, depth) for depth in DEPTHS for lanes in LANES)
    return tuple(dict.fromkeys(replace(shape, workers=workers) for shape in shapes))


def _named(*names: str) -> tuple[Shape, ...]:
    return tuple(parse(name) for name in names)


MANY_LANES = ("1000x10", "1000x20", "3000x20", "10000x2", "20000x1")

SELECTIONS: dict[str, tuple[Shape, ...]] = {
    "grid": _grid(),
    "grid4": _grid(workers=4),
    "free": _named("free20000", "free100000", "free20000/2w", "free100000/2w", "free20000/4w"),
    "lanes": _named(*MANY_LANES, "100x200", "10x2000"),
    "queues": _named("free20000/8q", "free20000/32q", "free20000/128q", "1000x10/128q"),
    "priorities": _named("free20000/8p", "1000x10/8p"),
    "moments": _named(
        *(f"{name}/{moment}" for name in MANY_LANES for moment in ("never", "full")),
        "free20000/never",
        "free20000/full",
    ),
    # what bars.md compares with the goals, in half an hour
    "bars": _named(
        *("free20000", "free100000", "free20000/2w", "free100000/2w"),
        *("1000x10", "10000x2", "20000x1", "100x100", "10x1000", "1x1000"),
        *("1000x10/4w", "free20000/128q", "1000x10/8p"),
    ),
    "quick": _named("free2000", "100x20", "1000x2", "1000x2/2w", "free2000/8q", "100x20/4p"),
}
DEFAULT = ("grid", "grid4", "free", "lanes", "queues", "priorities", "moments")


def choose(names: list[str]) -> list[Shape]:
    """Return the shapes of these names and selections, with the free jobs to compare them with."""
    chosen = [
        shape
        for name in names
        for shape in (SELECTIONS[name] if name in SELECTIONS else (parse(name),))
    ]
    every = dict.fromkeys([*(shape.free for shape in chosen), *chosen])
    return sorted(every, key=lambda shape: (shape.workers, shape.jobs, shape.lanes > 0))
