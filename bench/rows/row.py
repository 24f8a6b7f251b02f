"""The types of a row, a scene and a reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bench.arena import Arena
from bench.jobs import Tool


class Row(NamedTuple):
    """A line of the table. `more`: higher is better. `digits`: decimals to print.

    The title names the size of what was measured: `{jobs}` and `{lanes}` stand for the numbers
    that were run, which are a share of the full ones.
    """

    name: str
    title: str
    unit: str = "jobs/s"
    more: bool = True
    digits: int = 0
    jobs: int = 0
    lanes: int = 0

    def at(self, scale: Scale) -> Row:
        """Return the row with the numbers of this run in its title."""
        numbers = {"jobs": scale.jobs(self.jobs), "lanes": scale.jobs(self.lanes)}
        return self._replace(
            title=self.title.format(**{name: f"{number:,}" for name, number in numbers.items()})
        )


class Reading(NamedTuple):
    """One number of one run. If it has a note, something went wrong and it is not compared."""

    value: float
    note: str = ""


@dataclass(frozen=True)
class Scale:
    """The size of a run: the share of the full number of jobs, and the time limit of a drain."""

    share: float = 1.0
    limit: float = 60.0

    def jobs(self, full: int) -> int:
        return max(100, round(full * self.share))


@dataclass(frozen=True)
class Scene:
    """One run of one peer: `run` measures it in a fresh arena.

    A peer that keeps fewer than `lanes` lanes in order is left out, and one that lacks the tool.
    """

    rows: tuple[Row, ...]
    run: Callable[[Arena, Scale], Mapping[str, Reading]]
    lanes: int = 0
    tool: Tool = Tool.LOCK
