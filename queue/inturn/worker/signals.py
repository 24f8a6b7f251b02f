"""The first SIGINT or SIGTERM lets running jobs end, the second aborts them, the third has its usual effect."""

import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import anyio


class Caught(NamedTuple):
    signals: AsyncIterator[signal.Signals]
    let_go: Callable[[], None]  # of those that are still to come


@contextmanager
def caught() -> Iterator[Caught | None]:
    """From now on none has its usual effect, and what comes before somebody obeys is kept. None: we are not in the main thread,
    to which signals belong."""
    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            receiver = anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM)
            yield Caught(stack.enter_context(receiver), stack.close)
        else:
            yield None


async def obey(caught: Caught, stop: Callable[[str], None], abort: Callable[[str], None]) -> None:
    async for number in caught.signals:
        stop(number.name)
        break
    async for number in caught.signals:
        abort(number.name)
        break
    caught.let_go()
