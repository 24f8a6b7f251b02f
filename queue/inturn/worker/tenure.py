"""Decides whether the worker may start a job without asking whether it still owns it.

A worker that was stopped, or whose machine was suspended, wakes up with jobs in hand that others
may have taken over. Nothing can stop a run that has begun, but no new one needs to begin.
"""

import time
from collections.abc import Callable
from functools import partial

from inturn.worker.witness import HEARTBEATS

# Unlike the monotonic clock, it runs while the machine is suspended. Not every system has it.
read_clock: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class Tenure:
    """Lasts for half the time that a worker with this `interval` may be silent.

    It begins with each heartbeat that the server confirms. Others cannot have taken over our jobs
    while it lasts.
    """

    def __init__(self, interval: float, clock: Callable[[], float] = read_clock) -> None:
        self._seconds = interval * HEARTBEATS / 2
        self._clock = clock
        self._confirmed_at = clock()

    def ask(self) -> float:
        """Return the argument of `confirm`. Call it before you ask the server."""
        return self._clock()

    def confirm(self, asked_at: float) -> None:
        """Note that the server has confirmed that the worker still owns its jobs."""
        self._confirmed_at = max(self._confirmed_at, asked_at)

    @property
    def lasts(self) -> bool:
        """Return True if the worker may start jobs."""
        return self._clock() - self._confirmed_at <= self._seconds
