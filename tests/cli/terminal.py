"""A terminal with a program in it: what a person would see there, and the keys they press."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tests.cli.calling import PATIENCE
from tests.waiting import wait_until

FRAME = "\x1b[H"
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
CONTROL = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")


class Terminal:
    """Runs a program on a pseudo-terminal of its own, and reads all that it draws."""

    def __init__(
        self, command: Sequence[object], size: tuple[int, int] = (24, 100), **options: Any
    ) -> None:
        self._ours, self._theirs = pty.openpty()
        self._resize(size)
        self.modes = termios.tcgetattr(self._theirs)
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that keys send signals
            **options,
        )
        self._drawn = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._is_open = True
        self._reader.start()

    @property
    def drawn(self) -> str:
        """All that was written to the terminal."""
        return self._drawn.decode()

    @property
    def page(self) -> str:
        """The last page that is complete, as text."""
        *_, page, _ = ["", *re.findall(r"\x1b\[H(.*?)\x1b\[J", self.drawn, re.DOTALL), ""]
        return CONTROL.sub("", page).replace("\r\n", "\n")

    @property
    def pages(self) -> int:
        return self.drawn.count(FRAME)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        self._resize((rows, columns))
        self.process.send_signal(signal.SIGWINCH)

    def until(self, condition: Callable[[str], object]) -> str:
        """Return the first page of which this is true."""
        pages: list[str] = []

        def has_come() -> object:
            pages[:] = [self.page]
            assert self.process.poll() is None or condition(self.page), self.drawn
            return condition(pages[0])

        wait_until(has_come, PATIENCE, lambda: self.drawn)
        return pages[0]

    def until_page(self, number: int) -> None:
        """Wait until so many pages were drawn."""
        self.until(lambda _: self.pages >= number)

    def end(self) -> int:
        """Return the status with which the program ends by itself."""
        return self.process.wait(PATIENCE)

    def assert_is_as_before(self) -> None:
        """Keys are echoed again, and the first screen and the cursor are back."""
        wait_until(
            lambda: self.drawn.rfind(LEAVE) > self.drawn.rfind(ENTER), PATIENCE, lambda: self.drawn
        )
        wait_until(lambda: termios.tcgetattr(self._theirs) == self.modes, PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._is_open = False
        self._reader.join(PATIENCE)
        os.close(self._theirs)
        os.close(self._ours)

    def _resize(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def _read(self) -> None:
        while self._is_open:
            if select.select([self._ours], [], [], 0.05)[0]:
                self._drawn += os.read(self._ours, 65536)
