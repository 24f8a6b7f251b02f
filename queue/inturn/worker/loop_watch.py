"""Tells another thread whether the event loop is turning."""

import asyncio
import sys
import threading
import time
import traceback
from contextlib import suppress


class LoopWatch:
    """Watches the event loop in which it was created. Query it from another thread.

    `may_pause`: the loop's owner may stop it and run it again, as `asyncio.Runner`, notebooks and
    test frameworks do.
    """

    def __init__(self, *, may_pause: bool) -> None:
        self._may_pause = may_pause
        self._loop = asyncio.get_running_loop()
        self._thread = threading.current_thread()
        self._asked_at: float | None = None  # a call that the loop has not made yet

    def blocked(self) -> float:
        """Return the seconds for which the loop has not turned, at least.

        Call it regularly: each call asks the loop for an answer, which the next call checks.
        """
        asked_at = self._asked_at
        if asked_at is not None:
            return time.monotonic() - asked_at
        self._asked_at = time.monotonic()
        with suppress(RuntimeError, OSError):  # it is closed, or a task has closed its files
            self._loop.call_soon_threadsafe(self._turned)
        return 0.0

    @property
    def is_dead(self) -> bool:
        """Return True if the loop will never turn again."""
        if self._loop.is_running():
            return False
        pauses = self._may_pause and self._thread.is_alive()
        return self._loop.is_closed() or not pauses

    def stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        if frame is None:
            return "(its thread is gone)"
        return "".join(traceback.format_stack(frame)).rstrip()

    def _turned(self) -> None:
        self._asked_at = None
