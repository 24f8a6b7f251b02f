"""What one peer needed for one shape, in one round, cold or warm."""

from __future__ import annotations

from dataclasses import dataclass

from bench.jobs import Verdict
from bench.surface.shapes import Shape

COLD, WARM = "cold", "warm"


@dataclass(frozen=True)
class Reading:
    """The time and the work of one drain. Costs are sums over all jobs that ran."""

    round: int
    peer: str
    shape: Shape
    state: str  # COLD or WARM
    ran: int
    done: bool  # False if it was cut off
    seconds: float  # from the order to go until the last task's end
    first: float  # from the order to go until the first task's start
    server_cpu: float
    worker_cpu: float
    calls: int
    wal: int  # bytes, with enqueueing
    enqueued_in: float  # seconds
    verdict: Verdict

    @property
    def rate(self) -> float:
        return self.ran / self.seconds

    @property
    def server_us(self) -> float:
        return self.server_cpu / max(self.ran, 1) * 1e6

    @property
    def worker_us(self) -> float:
        return self.worker_cpu / max(self.ran, 1) * 1e6

    @property
    def wall_us(self) -> float:
        return self.seconds / max(self.ran, 1) * 1e6

    @property
    def calls_per_job(self) -> float:
        return self.calls / max(self.ran, 1)

    @property
    def wal_per_job(self) -> float:
        return self.wal / self.shape.jobs


@dataclass(frozen=True)
class Failure:
    """A peer that could not run a shape at all."""

    round: int
    peer: str
    shape: Shape
    why: str
