"""The first SIGINT or SIGTERM lets running jobs end, the second aborts them, the third has its usual effect."""

import signal
import threading
from collections.abc import Callable

import anyio


async def obey(stop: Callable[[str], None], abort: Callable[[str], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # signals belong to the main thread
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async for number in received:
            stop(number.name)
            break
        async for number in received:
            abort(number.name)
            break
