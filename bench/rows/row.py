"""A row, a scene, a reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bench.arena import Arena


class Row(NamedTuple):
    """`more` says whether more is better; `digits` how many to print after the point."""

    name: str
    title: str
    unit: str = "jobs/s"
    more: bool = True
    digits: int = 0


class Reading(NamedTuple):
    """One number of one run. A note says what was wrong with it; then it does not compete."""

    value: float
    note: str = ""


@dataclass(frozen=True)
class Scale:
    """How much to do: the share of the full number of jobs, and how long a drain may take."""

    share: float = 1.0
    limit: float = 60.0

    def jobs(self, full: int) -> int:
        return max(100, round(full * self.share))


@dataclass(frozen=True)
class Scene:
    """`run` measures one peer once, in a fresh arena. `lanes`: a peer that keeps fewer in order is not asked."""

    rows: tuple[Row, ...]
    run: Callable[[Arena, Scale], Mapping[str, Reading]]
    lanes: int = 0
