"""A terminal that redraws one page in place.

It uses the terminal's alternate screen, so the previous contents return at the end.
"""

import io
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # alternate screen, no cursor, no wrapping of long lines
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME, END_LINE, END_PAGE = "\x1b[H", "\x1b[m\x1b[K", "\x1b[J"
RESIZED = "resized"


class _Page(io.StringIO):
    """Captures output as if on a terminal, so that tables fit it and have colours."""

    def isatty(self) -> bool:
        return True


class Screen:
    """Shows pages and reads keys."""

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._output, self._encoding = sys.stdout.fileno(), sys.stdout.encoding
        self._modes: list[Any] | None = None
        self._lines: list[str] = []
        self._wakeups, self._waker = os.pipe()

    def show(self, page: str) -> None:
        """Draw a page. If it does not fit, the last line counts the missing lines."""
        self._lines = page.rstrip("\n").split("\n")
        self._draw()

    def wait(self, until: float | None) -> str | None:
        """Return the next key, RESIZED if the size changed, or None at a monotonic time."""
        sources = [self._wakeups] if self._keys is None else [self._wakeups, self._keys]
        rest = None if until is None else max(0.0, until - time.monotonic())
        ready, _, _ = select.select(sources, [], [], rest)
        if self._wakeups in ready:
            os.read(self._wakeups, 4096)
            return RESIZED
        if ready and self._keys is not None:
            key = os.read(self._keys, 1).decode("ascii", "replace")
            if not key:  # end of input: no more keys
                self._keys = None
            return key
        return None

    def _draw(self) -> None:
        rows = max(shutil.get_terminal_size().lines, 1)
        lines = self._lines
        if len(lines) > rows:
            lines = [*lines[: rows - 1], f"… {len(lines) - rows + 1:,} more lines"]
        body = f"{END_LINE}\n".join(lines)
        self._write(f"{HOME}{body}{END_LINE}{END_PAGE}")

    def _enter(self) -> None:
        if self._keys is not None:
            self._modes = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        self._write(ENTER)

    def _leave(self) -> None:
        self._write(LEAVE)
        if self._keys is not None and self._modes is not None:
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._modes)

    def _suspend(self, *_: object) -> None:
        """Restore the terminal while Ctrl-Z stops us."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()
        self._draw()

    def _write(self, text: str) -> None:
        # Ctrl-Z may come while `sys.stdout` is busy or replaced by `capture`.
        rest = text.encode(self._encoding, "backslashreplace")
        while rest:
            rest = rest[os.write(self._output, rest) :]

    def _wake(self, *_: object) -> None:
        os.write(self._waker, b".")

    def _close(self) -> None:
        os.close(self._wakeups)
        os.close(self._waker)


@contextmanager
def open_screen() -> Iterator[Screen]:
    """Take over the terminal, and restore it however the block ends."""
    # A parent process may have set a size here, which would hide later changes.
    for name in ("LINES", "COLUMNS"):
        os.environ.pop(name, None)
    screen = Screen()
    handlers = {signal.SIGWINCH: screen._wake, signal.SIGTSTP: screen._suspend}
    before = {number: signal.signal(number, handle) for number, handle in handlers.items()}
    try:
        screen._enter()
        yield screen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        screen._leave()
        screen._close()


def capture(command: Callable[[], object]) -> str:
    """Return a command's output as it would appear on this terminal."""
    page = _Page()
    with redirect_stdout(page), redirect_stderr(page):
        command()
    return page.getvalue()


def is_live() -> bool:
    """Return True if standard output is a terminal that can redraw a page."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
