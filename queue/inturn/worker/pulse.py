"""Measures whether the event loop is turning, for callers in other threads."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

SECOND = 1.0
KEPT = 60  # beats whose lateness is remembered


class Pulse:
    """A timer in the event loop. If it is late, the loop was busy with something else.

    It may be created before the event loop runs: until `start`, nothing is late.
    """

    def __init__(self) -> None:
        self._due_at: float | None = None
        self._lateness: deque[float] = deque([0.0], maxlen=KEPT)
        self._timer: asyncio.TimerHandle | None = None

    def start(
        self, interval: float = SECOND, at_each_beat: Callable[[], object] = lambda: None
    ) -> None:
        """Start the timer in the running event loop, and call a function there at each beat."""
        self._interval, self._at_each_beat = interval, at_each_beat
        self._wind_up(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop the timer. From then on nothing is late."""
        self._due_at = None
        if self._timer is not None:
            self._timer.cancel()

    def blocked(self) -> float:
        """Return for how many seconds the event loop has not turned."""
        due_at = self._due_at
        return 0.0 if due_at is None else max(0.0, time.monotonic() - due_at)

    def lag(self) -> float:
        """Return the longest time that the event loop did not turn, over the last sixty beats."""
        return max(self.blocked(), *self._lateness.copy())

    def _wind_up(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_at = time.monotonic() + self._interval
        self._timer = loop.call_later(self._interval, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._lateness.append(self.blocked())
        self._wind_up(loop)
        self._at_each_beat()
