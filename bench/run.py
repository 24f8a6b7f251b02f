"""Run the chosen scenes: round by round, scene by scene, each peer in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bench.arena import Arena, Moment
from bench.jobs import Tool
from bench.peers.adapter import Peer
from bench.processes import PeerFailed
from bench.rows.row import Reading, Scale, Scene
from bench.server import Bed

LACKS = {tool: f"no {tool}" for tool in Tool} | {Tool.LOCK: "no lanes"}


class Measured(NamedTuple):
    round: int
    row: str
    peer: str
    reading: Reading | None  # None if it could not be measured; `why` has the reason
    why: str = ""


def measure(
    bed: Bed,
    peers: Iterable[Peer],
    scenes: Sequence[Scene],
    rounds: int,
    scale: Scale,
    moment: Moment,
    tell: Callable[[Measured], object],
) -> None:
    arenas = [Arena(bed, peer, moment) for peer in peers]
    for number in range(rounds):
        for scene in scenes:
            for arena in arenas:
                if not _is_measured(arena.peer, scene):
                    continue
                for measured in _play(scene, arena, scale, number):
                    tell(measured)


def _is_measured(peer: Peer, scene: Scene) -> bool:
    return not peer.rows or any(row.name in peer.rows for row in scene.rows)


def _lacks(peer: Peer, scene: Scene) -> bool:
    if scene.tool is Tool.LOCK:
        return scene.lanes > peer.max_lanes
    return scene.tool not in peer.tools


def _play(scene: Scene, arena: Arena, scale: Scale, number: int) -> list[Measured]:
    name = arena.peer.name
    if _lacks(arena.peer, scene):
        why = LACKS[scene.tool]
        return [Measured(number, row.name, name, None, why) for row in scene.rows]
    try:
        with arena.fresh() as fresh:
            readings = scene.run(fresh, scale)
    except PeerFailed as error:
        return [Measured(number, row.name, name, None, f"failed: {error}") for row in scene.rows]
    return [
        Measured(number, row.name, name, readings[row.name])
        for row in scene.rows
        if row.name in readings
    ]
