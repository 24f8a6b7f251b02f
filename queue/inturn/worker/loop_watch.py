"""Whether the event loop turns, seen from another thread."""

import asyncio
import sys
import threading
import time
import traceback
from contextlib import suppress


class LoopWatch:
    """Made in the loop; asked from another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._asked_at: float | None = None  # a call that the loop has not made yet

    def blocked(self) -> float:
        """Return for how many seconds, at least, the loop has not turned. Ask now and then: each call sends the next one off."""
        asked_at = self._asked_at
        if asked_at is not None:
            return time.monotonic() - asked_at
        self._asked_at = time.monotonic()
        with suppress(RuntimeError, OSError):  # it is closed, or somebody has closed its files
            self._loop.call_soon_threadsafe(self._turned)
        return 0.0

    @property
    def is_dead(self) -> bool:
        """Whether it will never turn again."""
        return self._loop.is_closed() or not self._loop.is_running()

    def stack(self) -> str:
        """What the loop's thread is at, line by line."""
        frame = sys._current_frames().get(self._thread)
        return (
            "".join(traceback.format_stack(frame)).rstrip()
            if frame is not None
            else "(its thread is gone)"
        )

    def _turned(self) -> None:
        self._asked_at = None
