"""SIGTERM while holding: the locks of this process soon expire, though nobody is left to release them.

Installed only where SIGTERM would kill the process at once. A program with a handler of its own ends in its own time,
and calls `expire_soon` in it if it wants the same.
"""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType

from inturn.locks.core.base_lease import all_living
from inturn.locks.core.lease import Lease
from inturn.locks.errors import LockError

PATIENCE = 2.0  # seconds that the end of the process waits for the stores


def expire_soon(seconds: float = 60.0) -> None:
    """Let every lease that threads of this process hold end in at most so many seconds."""

    def shorten() -> None:
        for lease in all_living():
            if isinstance(lease, Lease) and lease.valid and lease.remaining() > seconds:
                with suppress(LockError):
                    lease.last_end = lease.clock() + seconds
                    lease.renew()
                lease.hasten()

    # A thread, because the signal may have interrupted us in the middle of the same connection's conversation.
    thread = threading.Thread(target=shorten, name="inturn-locks-sigterm", daemon=True)
    thread.start()
    thread.join(PATIENCE)


def expire_on_sigterm(seconds: float) -> None:
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return

    def die(number: int, _: FrameType | None) -> None:
        expire_soon(seconds)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, die)
