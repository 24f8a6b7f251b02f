"""Run the shapes: round by round, shape by shape, each peer in turn.

A peer may take a multiple of what inturn took for the same shape (`Patience`). Then it is cut off,
and later rounds leave it out for this shape. So inturn comes first in the first round. In later
rounds the order of the peers rotates, so that no peer always follows the same other peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.arena import Arena
from bench.peers.adapter import Peer
from bench.peers.registry import OURS
from bench.processes import PeerFailed
from bench.server import Bed
from bench.surface.measure import measure
from bench.surface.reading import COLD, WARM, Failure, Reading
from bench.surface.shapes import Shape

CEILING = 600.0  # seconds; it only keeps a drain that hangs from hanging forever


@dataclass(frozen=True)
class Patience:
    """How long a peer may take: this many times as long as inturn, but at least the floor."""

    ratio: float = 10.0
    floor: float = 3.0  # seconds, since a small shape takes less time than a worker's start

    def limit(self, ours: Sequence[Reading]) -> float:
        cold = [reading.seconds for reading in ours if reading.state == COLD]
        return max(self.floor, self.ratio * median(cold)) if cold else CEILING


@dataclass(frozen=True)
class Step:
    """One peer that is to run one shape in one round."""

    round: int
    shape: Shape
    arena: Arena

    @property
    def peer(self) -> str:
        return self.arena.peer.name


Result = Reading | Failure
Tell = Callable[[Step, Sequence[Result]], None]


def steps(bed: Bed, peers: Sequence[Peer], shapes: Sequence[Shape], rounds: int) -> list[Step]:
    """Return what is to be run, in this order. Peers are left out where they cannot run a shape."""
    arenas = [Arena(bed, peer) for peer in peers]
    return [
        Step(number, shape, arena)
        for number in range(rounds)
        for shape in shapes
        for arena in _rotated(arenas, number)
        if can_run(arena.peer, shape)
    ]


def _rotated(arenas: list[Arena], by: int) -> list[Arena]:
    by %= len(arenas)
    return arenas[by:] + arenas[:by]


def can_run(peer: Peer, shape: Shape) -> bool:
    return (
        shape.lanes <= peer.max_lanes
        and shape.queues <= peer.max_queues
        and shape.priorities <= peer.max_priorities
    )


def run(
    planned: Sequence[Step],
    patience: Patience,
    results: list[Result],
    *,
    warm: bool,
    tell: Tell,
) -> None:
    """Take the steps and append what they find to `results`, so that a stop loses nothing."""
    for step in planned:
        cut = {one.state for one in _of(results, step.peer, step.shape) if not one.done}
        warm_too = warm and WARM not in cut
        found = [] if COLD in cut else list(_take(step, results, patience, warm_too))
        results += found
        tell(step, found)


def _take(
    step: Step, results: Sequence[Result], patience: Patience, warm: bool
) -> Iterator[Result]:
    ours = step.peer == OURS
    limit = CEILING if ours else patience.limit(_of(results, OURS, step.shape))
    try:
        yield from measure(step.arena, step.shape, step.round, limit, warm=warm)
    except PeerFailed as error:
        yield Failure(step.round, step.peer, step.shape, str(error))


def _of(results: Sequence[Result], peer: str, shape: Shape) -> list[Reading]:
    return [
        result
        for result in results
        if isinstance(result, Reading) and result.peer == peer and result.shape == shape
    ]
