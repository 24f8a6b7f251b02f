"""Let locks expire soon if SIGTERM kills their holder, which then cannot release them.

The handler is only installed if SIGTERM would kill the process at once. A program with its own
handler controls its own shutdown, and can call `expire_soon` in that handler.
"""

import os
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from types import FrameType

from inturn.locks.core.lease import Lease
from inturn.locks.core.process import process
from inturn.locks.core.watchdog import watchdog
from inturn.locks.errors import LockError

PATIENCE = 2.0  # seconds that the process waits for the stores before it ends


def expire_soon(seconds: float = 60.0) -> None:
    """Let every lease held by a thread of this process end within `seconds`."""
    shortened = []
    for lease in process.list_leases():
        if isinstance(lease, Lease) and lease.valid and lease.remaining() > seconds:
            shortened.append(done := threading.Event())
            # In a thread, because the signal may have interrupted us while using the same
            # connection. Each server has its own, so that a silent one does not delay the others.
            watchdog.renewals.put(lease.port.server, partial(_shorten, lease, seconds, done))
    deadline = time.monotonic() + PATIENCE
    for done in shortened:
        done.wait(deadline - time.monotonic())


def _shorten(lease: Lease, seconds: float, done: threading.Event) -> None:
    try:
        lease.last_end = lease.clock() + seconds
        with suppress(LockError):
            lease.renew()
        lease.reschedule()
    finally:
        done.set()


def expire_on_sigterm(seconds: float) -> None:
    """Install the handler if SIGTERM would kill this process at once."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return

    def die(number: int, _: FrameType | None) -> None:
        expire_soon(seconds)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, die)
