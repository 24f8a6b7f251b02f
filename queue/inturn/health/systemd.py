"""Reports the worker's state to systemd (`Type=notify`, `WatchdogSec=`), as sd_notify does."""

import logging
import os
import socket
from contextlib import suppress

logger = logging.getLogger(__name__)
VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Sends messages to systemd's socket. It never waits and never raises."""

    def __init__(self, address: str, watchdog: float | None) -> None:
        # A leading @ stands for the NUL of an address that is not in the file system.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog = watchdog  # systemd kills us after this many silent seconds
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def say_ready(self) -> None:
        """Report that the worker is ready. Units ordered after it may start."""
        self._send("READY=1\nSTATUS=running jobs")

    def say_stopping(self) -> None:
        """Report that the worker takes no more jobs."""
        self._send("STOPPING=1\nSTATUS=waiting for running jobs")

    def say_alive(self) -> None:
        """Report that the event loop is not blocked."""
        self._send("WATCHDOG=1")

    def close(self) -> None:
        self._socket.close()

    def _send(self, words: str) -> None:
        with suppress(OSError):  # systemd is busy or gone
            self._socket.sendto(words.encode(), self._address)


def find_notifier() -> Notifier | None:
    """Return a notifier if systemd waits for this process, otherwise None.

    The variables are removed, so that a process that a task starts does not speak for the worker.
    """
    address, microseconds, pid = (os.environ.pop(name, "") for name in VARIABLES)
    if not address.startswith(("/", "@")):
        return None
    is_watched = microseconds.isdecimal() and pid in ("", str(os.getpid()))
    return Notifier(address, int(microseconds) / 1e6 if is_watched else None)
