"""Wait for the end of jobs.

A waiter marks the job and checks it (`await_end.sql`). The end of a marked job sends a
notification. All waiters share one thread and one listening connection. If a notification is lost,
the waiter finds the end when it checks again, after a few seconds.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Lock, Thread

import anyio

from inturn.database import forks
from inturn.database.connector import Connector
from inturn.errors import ResultTimeout
from inturn.operations.changes import jobs
from inturn.operations.changes.jobs import End

logger = logging.getLogger(__name__)
LISTEN = 'LISTEN "inturn ended"'  # the channel in notify_ended.sql
POLL = 5.0  # seconds
LINGER = 0.2  # seconds for which the thread outlives the last waiter
Callback = Callable[[], object]


class ResultListener:
    """Waits for jobs, and calls the callback of each waiter when its job ends."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._forget()
        forks.forget_in_child(self, ResultListener._forget)

    def _forget(self) -> None:
        """Forget all waiters and the thread: in a forked process, there are none."""
        self._lock = Lock()
        self._callbacks: dict[str, list[Callback]] = {}  # by job id, as notifications spell it
        self._listens = False

    @contextmanager
    def call_back(self, job_id: int, callback: Callback) -> Iterator[None]:
        """Inside the block, call `callback` whenever the job may have ended.

        The call comes from the thread that `listen` starts.
        """
        with self._lock:
            self._callbacks.setdefault(str(job_id), []).append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._callbacks[str(job_id)].remove(callback)
                if not self._callbacks[str(job_id)]:
                    del self._callbacks[str(job_id)]

    def listen(self) -> None:
        """Start the thread, unless it runs already. It ends with the last callback."""
        with self._lock:
            starts, self._listens = not self._listens, True
        if starts:
            Thread(target=self._listen, name="inturn results", daemon=True).start()

    def wait(self, job_id: int, timeout: float | timedelta | None) -> End:
        """Return how a job ended, or raise ResultTimeout."""
        deadline, ended = ResultDeadline(job_id, timeout), Event()
        # The callback comes first, since the job may end as soon as it is marked.
        with self.call_back(job_id, ended.set):
            while (end := self._connector.run(jobs.await_end(job_id))) is None:
                self.listen()
                ended.wait(deadline.next_wait())
                ended.clear()
        return end

    async def wait_async(self, job_id: int, timeout: float | timedelta | None) -> End:  # noqa: ASYNC109 (as in wait)
        """Like `wait`, in an event loop."""
        deadline, ended = ResultDeadline(job_id, timeout), asyncio.Event()
        loop = asyncio.get_running_loop()

        def callback() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(ended.set)

        with self.call_back(job_id, callback):
            while (end := await self._connector.run_async(jobs.await_end(job_id))) is None:
                self.listen()
                with anyio.move_on_after(deadline.next_wait()):
                    await ended.wait()
                ended.clear()
        return end

    def _listen(self) -> None:
        while self._has_callers():
            moves = self._connector.moves
            try:
                with contextlib.closing(
                    self._connector.connect("results", to_listen=True)
                ) as connection:
                    connection.execute(LISTEN)
                    self._notify(None)  # jobs may have ended before LISTEN
                    looked_at = time.monotonic()
                    while self._callbacks and self._connector.moves == moves:
                        for notification in connection.notifies(timeout=LINGER):
                            self._notify(notification.payload)
                        if time.monotonic() - looked_at > POLL:
                            connection.execute("")  # raises if the connection is lost
                            looked_at = time.monotonic()
            except Exception as error:  # whatever it is, they still wait
                if self._callbacks:
                    logger.warning("results.lost: %s; polling every %g s", error, POLL)
                    time.sleep(1)

    def _has_callers(self) -> bool:
        with self._lock:
            self._listens = bool(self._callbacks)
            return self._listens

    def _notify(self, job_id: str | None) -> None:
        with self._lock:
            callbacks = [
                callback
                for id, waiting in self._callbacks.items()
                if job_id in (None, id)
                for callback in waiting
            ]
        for callback in callbacks:
            callback()


class ResultDeadline:
    """How long a waiter may wait for one job."""

    def __init__(self, job_id: int, timeout: float | timedelta | None) -> None:
        self._job_id = job_id
        self._timeout = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self._end = None if self._timeout is None else time.monotonic() + self._timeout

    def next_wait(self) -> float:
        """Return the seconds until the next check, or raise ResultTimeout."""
        if self._end is None:
            return POLL
        left = self._end - time.monotonic()
        if left <= 0:
            raise ResultTimeout(
                f"Job {self._job_id} did not end within {self._timeout:g} s. It continues. "
                f"To see why, run: queue jobs explain {self._job_id}"
            )
        return min(POLL, left)
