"""Print a line for each step, with what is left and how long it may take."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console

from bench.surface.reading import Failure
from bench.surface.run import Result, Step

START_JOBS = 20_000  # starting the processes of a step takes about as long as so many jobs


class Progress:
    def __init__(self, planned: Sequence[Step], console: Console) -> None:
        self._left = list(planned)
        self._total = len(self._left)
        self._console = console
        self._last = time.monotonic()
        self._took: dict[tuple[str, str], float] = {}  # seconds, by peer and shape
        self._weight = self._seconds = 0.0

    def tell(self, step: Step, found: Sequence[Result]) -> None:
        self._note(step)
        done = self._total - len(self._left)
        head = f"{done}/{self._total}, {self.minutes_left:.0f} min left"
        for text in [describe(result) for result in found] or ["left out: it was cut off before"]:
            self._console.print(
                f"[{head}] {step.round + 1} {step.shape!s:<16} {step.peer:<16} {text}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )

    def _note(self, step: Step) -> None:
        took, self._last = time.monotonic() - self._last, time.monotonic()
        self._left.remove(step)
        self._took[_key(step)] = took
        self._weight += _weight(step)
        self._seconds += took

    @property
    def minutes_left(self) -> float:
        """An estimate, by the same step of the round before or by the jobs of all steps so far."""
        pace = self._seconds / self._weight
        return sum(self._took.get(_key(step), pace * _weight(step)) for step in self._left) / 60


def _key(step: Step) -> tuple[str, str]:
    return step.peer, str(step.shape)


def _weight(step: Step) -> float:
    return step.shape.jobs + START_JOBS


def describe(result: Result) -> str:
    if isinstance(result, Failure):
        return f"failed: {result.why}"
    marks = ["" if result.done else f"* {result.ran:,} of {result.shape.jobs:,}"]
    marks += [] if result.verdict.fine else [f"WRONG: {result.verdict}"]
    return (
        f"{result.state} {result.rate:>9,.0f} jobs/s, per job {result.server_us:,.1f} µs server, "
        f"{result.worker_us:,.1f} µs worker, {result.calls_per_job:.3f} calls {' '.join(marks)}"
    ).rstrip()
