"""The costs that were measured at one size of one shape."""

from typing import NamedTuple

from bench.growth.costs import Cost

CALLS = ("defer", "claim", "further", "finish")


class Point(NamedTuple):
    shape: str
    size: int
    costs: dict[str, Cost]
