"""SIGINT, SIGTERM and SIGHUP.

The first lets running jobs end, the second aborts them, the third ends the process at once. Signals
that arrive within an instant count as one, because a sender may signal both a process group and the
process itself. If the process is still alive some seconds after the second signal, it is killed,
whatever the server or a task does.

A thread counts the signals, so they count even while the event loop is blocked. The interpreter
immediately sends it a byte for each (`signal.set_wakeup_fd`). Other code may replace that
descriptor, so the Python handlers also send one as soon as the main thread can run them. Only C
code that holds the GIL keeps the thread from noticing.
"""

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Protocol

logger = logging.getLogger(__name__)

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INSTANT = 0.3  # seconds in which all signals count as one
PATIENCE = 4.0  # seconds from the second signal to the end of the process
LAST_WORDS = 0.5  # seconds for the last log message
ORPHANED = 0  # a byte that `drain` sends; no signal has this number
HANDLED = 128  # the handler in Python adds this to the number of the signal

_listening: "list[Caught]" = []
_dedicated = False
_supervisor: "SupervisorChannel | None" = None


class SupervisorChannel(Protocol):
    """Another process, which replaces this one if it dies or retires."""

    def report_serving(self) -> None: ...

    def report_retiring(self) -> None: ...


def dedicate(supervisor: SupervisorChannel | None = None) -> None:
    """Count signals until the process ends, because it is a worker and nothing else.

    Something may keep the process alive after the worker has ended, such as a thread that a task
    left behind. The supervisor, if there is one, is told when the worker begins to serve.
    """
    global _dedicated, _supervisor
    _dedicated, _supervisor = True, supervisor


def say_retiring() -> None:
    """Tell the supervisor, if there is one, that the worker ends and should be replaced."""
    if _supervisor is not None:
        _supervisor.report_retiring()


def is_dedicated() -> bool:
    """Return True if the process is a worker and nothing else."""
    return _dedicated


def drain() -> None:
    """Act as if the first signal had arrived, unless it has. May be called from any thread."""
    if not _listening:
        os.kill(os.getpid(), signal.SIGTERM)  # not serving yet
    for caught in _listening:
        caught.hear(ORPHANED)


@contextmanager
def caught(patience: float) -> Iterator["Caught | None"]:
    """Catch the signals. Those that arrive before `obey` runs are kept.

    Yield None outside the main thread, which is the only one that can catch signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    caught = Caught(patience)
    try:
        yield caught
    finally:
        if not _dedicated:
            caught.close()


async def obey(
    caught: "Caught", stop: Callable[[str], object], abort: Callable[[str], object]
) -> None:
    """Call `stop` after the first signal and `abort` after the second."""
    if _supervisor is not None:
        _supervisor.report_serving()
    while True:  # the worker starts it again if something else cancels it
        count, number = await caught.counted.get()
        (stop if count == 1 else abort)(number.name)


class Caught:
    """The signals that this process has caught. `counted` yields each with its position."""

    def __init__(self, patience: float) -> None:
        self.counted: asyncio.Queue[tuple[int, signal.Signals]] = asyncio.Queue()
        self.loop = asyncio.get_running_loop()
        self._patience = patience
        self._count = 0
        self._counted_at = -INSTANT
        self._end_at: float | None = None
        self._ended_by = signal.SIGTERM
        self._heard: Counter[int] = Counter()  # bytes, with and without HANDLED
        self._ear, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)
        # Ignored signals stay ignored: that is how nohup works.
        self._numbers = [number for number in NUMBERS if signal.getsignal(number) != signal.SIG_IGN]
        self.usual: dict[int, Any] = {
            number: signal.signal(number, self._handle) for number in self._numbers
        }
        self._others = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="inturn-signals", daemon=True)
        self._thread.start()
        _listening.append(self)

    def hear(self, byte: int) -> None:
        """Tell the thread of a signal."""
        with suppress(OSError):  # full, or closed
            self._mouth.send(bytes([byte]))

    def close(self) -> None:
        """Restore the usual handlers and end the thread."""
        self.restore(self.usual)
        # A process forked without our knowledge may hold the other end.
        self._ear.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._ear.close()

    def restore(self, handlers: Mapping[int, Any]) -> None:
        """Restore these handlers. Leave the thread alone: a forked child does not have it."""
        _listening.remove(self)
        for number, handler in handlers.items():
            for each in _listening:  # a later one must not restore this one's
                if each.usual.get(number) == self._handle:
                    each.usual[number] = handler
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for each in _listening:
            if each._others == self._mouth.fileno():
                each._others = self._others
        now = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(self._others if now == self._mouth.fileno() else now)
        self._mouth.close()

    def _handle(self, number: int, _: FrameType | None) -> None:
        for each in _listening:  # other workers of this process, whose handlers this one replaced
            each.hear(number + HANDLED)

    def _listen(self) -> None:
        while heard := self._hear():
            for byte in heard:
                if byte == ORPHANED:
                    if self._count == 0:
                        self._note(signal.SIGTERM)
                elif byte % HANDLED not in self._numbers:
                    self._pass_on(byte)
                elif self._is_new(byte):
                    self._note(signal.Signals(byte % HANDLED))

    def _hear(self) -> bytes:
        """Return the next bytes, or none once the other end is closed."""
        if self._end_at is not None:
            self._ear.settimeout(max(0.001, self._end_at - time.monotonic()))
        try:
            return self._ear.recv(4096)
        except TimeoutError:
            self._end(f"still here {self._patience:g} s after the second signal")
            raise

    def _is_new(self, byte: int) -> bool:
        """Return True unless this is the second of the two bytes that one signal may send."""
        self._heard[byte] += 1
        return self._heard[byte] > self._heard[byte ^ HANDLED]

    def _pass_on(self, byte: int) -> None:
        """Pass on a byte that is not for us: an event loop may wait for another signal."""
        if self._others >= 0 and byte < HANDLED:
            with suppress(OSError):
                os.write(self._others, bytes([byte]))

    def _note(self, number: signal.Signals) -> None:
        now = time.monotonic()
        if now - self._counted_at < INSTANT:
            return
        self._count, self._counted_at = self._count + 1, now
        if self._count == 2:
            self._ended_by, self._end_at = number, now + self._patience
        elif self._count > 2:
            self._ended_by = number
            self._end("the third signal")
        with suppress(RuntimeError):  # the event loop is closed
            self.loop.call_soon_threadsafe(self.counted.put_nowait, (self._count, number))

    def _end(self, why: str) -> None:
        # In a separate thread, since another thread may be stuck in logging.
        last_words = threading.Thread(
            target=_log_and_flush, args=(why, self._ended_by.name), daemon=True
        )
        last_words.start()
        last_words.join(LAST_WORDS)
        os._exit(128 + self._ended_by)


def _log_and_flush(why: str, name: str) -> None:
    logger.critical("process.killed: %s (%s); other workers will take over its jobs", why, name)
    logging.shutdown()


# A forked child is not a worker: it would report its signals to its parent instead of dying from
# them. Signals are therefore blocked until the child has dropped what it inherited.
_forking = threading.local()


def _before_fork() -> None:
    if _listening:
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)


def _after_fork() -> None:
    mask = _forking.__dict__.pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    for caught in list(_listening):
        # Not the usual handlers: if one raised here, nothing could catch it.
        caught.restore(dict.fromkeys(caught.usual, signal.SIG_DFL))
        with suppress(RuntimeError):  # it is closed
            caught.loop.call_soon(os._exit, 1)  # if a task lets the child return to the loop
    _after_fork()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)
