"""The threads behind the watchdog: one timer, and one renewal thread for each server."""

import heapq
import logging
import threading
import time
from collections.abc import Callable
from itertools import count
from queue import Empty, SimpleQueue

logger = logging.getLogger(__name__)
IDLE = 5.0  # seconds after which an idle thread ends
Action = Callable[[], None]


class TimerThread:
    """Runs each action when it is due, in one thread."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Action]] = []
        self._numbers = count()
        # Reentrant, because a signal handler may take a lock while this thread is in here.
        self._changing = threading.RLock()
        self._changed = threading.Condition(self._changing)
        self._running = False

    def after(self, seconds: float, action: Action) -> None:
        new = (time.monotonic() + seconds, next(self._numbers), action)
        with self._changing:
            heapq.heappush(self._due, new)
            if not self._running:
                threading.Thread(target=self._run, name="inturn-locks-clock", daemon=True).start()
                self._running = True
            elif self._due[0] is new:  # only then must the thread wake up earlier
                self._changed.notify()

    def _run(self) -> None:
        while action := self._next():
            run_logging_errors(action)

    def _next(self) -> Action | None:
        with self._changed:
            while True:
                wait = self._due[0][0] - time.monotonic() if self._due else IDLE
                if self._due and wait <= 0:
                    return heapq.heappop(self._due)[2]
                if not self._changed.wait(wait) and not self._due:
                    self._running = False
                    return None


class RenewalThreads:
    """Renews the leases of each server one after another, in a thread that ends when idle."""

    def __init__(self) -> None:
        self._queues: dict[object, SimpleQueue[Action]] = {}  # of the threads that run, by server
        # Reentrant, because a signal handler may come here while this thread is in here.
        self._changing = threading.RLock()

    def put(self, server: object, action: Action) -> None:
        with self._changing:
            queue = self._queues.get(server)
            if queue is None:
                queue = SimpleQueue()
                threading.Thread(
                    target=self._run, args=(server, queue), name="inturn-locks-renewal", daemon=True
                ).start()
                self._queues[server] = queue
            queue.put(action)

    def _run(self, server: object, queue: SimpleQueue[Action]) -> None:
        while True:
            try:
                run_logging_errors(queue.get(timeout=IDLE))
            except Empty:
                with self._changing:
                    if queue.empty():
                        self._queues.pop(server, None)
                        return


def run_logging_errors(action: Action) -> None:
    """Run the action. Errors are logged, so that they do not end the thread."""
    try:
        action()
    except Exception:
        logger.exception("lock.watchdog: an action failed")
