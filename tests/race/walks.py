"""Runs a random walk, and says at which step a promise broke."""

from typing import Protocol

from tests.race.harness import PromiseBroken


class Walk(Protocol):
    def step(self) -> None: ...

    def settle(self) -> None:
        """End the walk, and check that nothing is left."""


def run_walk(walk: Walk, steps: int) -> None:
    for step in range(steps):
        try:
            walk.step()
        except PromiseBroken as broken:
            raise PromiseBroken(f"step {step}: {broken}") from broken
    walk.settle()
