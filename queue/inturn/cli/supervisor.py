"""The supervisor of `queue worker --processes N`: it runs N worker processes.

It passes signals on to all of them, and replaces one that dies.
If a worker process fails before any has served, and the reason applies to all (the app cannot be
imported, or the schema does not fit), all of them end.
If the supervisor dies, its worker processes drain: see `supervised`.
"""

import logging
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from subprocess import DEVNULL

import anyio
from anyio.abc import Process

from inturn.cli import supervised
from inturn.cli.exit_status import NOT_FOUND, SCHEMA, USAGE
from inturn.worker import signals

logger = logging.getLogger(__name__)
HOPELESS = (USAGE, NOT_FOUND, SCHEMA)  # another worker process would end with this too
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a dead worker is replaced
WELL_AFTER = 60.0  # seconds: a worker process that lived this long was well
PATIENCE = signals.PATIENCE + signals.LAST_WORDS  # the worker processes use up theirs first


def run(call: Sequence[str], name: str, count: int, dsn: str | None) -> int:
    """Run `count` worker processes until all have ended, and return their exit status.

    `call` holds the interpreter's arguments for one of them. Each gets `name` and a number.
    """
    command = [sys.executable, *supervised.without_dsn(list(call)), "--processes", "1"]
    signals.dedicate()
    return anyio.run(Supervisor(command, supervised.make_environment(dsn), name, count).run)


class Supervisor:
    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], name: str, count: int
    ) -> None:
        self._command = command
        self._environment = environment
        self._names = [f"{name}-{number}" for number in range(1, count + 1)]
        self._processes: dict[str, Process] = {}
        self._sockets: dict[str, socket.socket] = {}  # the workers have the other ends
        self._stopping = anyio.Event()
        self._served: set[str] = set()  # names that have ever served
        self._status = 0  # the worst status of those that were told to end
        self._hopeless = 0  # the status for which we stopped all of them

    async def run(self) -> int:
        with signals.caught(PATIENCE) as caught:
            async with anyio.create_task_group() as helpers:
                if caught is not None:
                    helpers.start_soon(signals.obey, caught, self._pass_on, self._pass_on)
                async with anyio.create_task_group() as workers:
                    for name in self._names:
                        workers.start_soon(self._keep, name)
                helpers.cancel_scope.cancel()
        return self._hopeless or self._status

    def _pass_on(self, name: str) -> None:
        """Pass on each signal: the second one means something else to a worker."""
        self._stop(name, signal.Signals[name])

    def _stop(self, reason: str, number: signal.Signals) -> None:
        logger.info(
            "supervisor.stopping: %s; passed on to workers: %d", reason, len(self._processes)
        )
        self._stopping.set()
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self, name: str) -> None:
        pause = SHORTEST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            status = await self._run_one(name)
            if status == 0 or self._stopping.is_set():
                self._status = max(self._status, status)
                return
            if status in HOPELESS and not self._served:
                self._hopeless = status
                self._stop(f"{name} ended with status {status}", signal.SIGTERM)
                return
            if time.monotonic() - began > WELL_AFTER:
                pause = SHORTEST_PAUSE
            logger.error("worker.died: %s, status %d, replaced in %g s", name, status, pause)
            with anyio.move_on_after(pause):
                await self._stopping.wait()
            pause = min(LONGEST_PAUSE, 2 * pause)

    async def _run_one(self, name: str) -> int:
        ours, its = socket.socketpair()
        with ours:
            with its:
                process = await self._start(name, its)
            self._processes[name], self._sockets[name] = process, ours
            try:
                async with process:
                    if self._stopping.is_set():
                        process.terminate()  # the signal came while it was starting
                    status = await process.wait()
                self._served |= {name for name, its in self._sockets.items() if _has_spoken(its)}
            finally:
                del self._processes[name], self._sockets[name]
        if self._stopping.is_set() and name not in self._served:
            return 0  # it had not served yet
        return status if status >= 0 else 128 - status

    async def _start(self, name: str, its: socket.socket) -> Process:
        """Start a worker process in a session of its own, or it would get Ctrl-C twice."""
        return await anyio.open_process(
            [*self._command, "--name", name],
            stdin=DEVNULL,
            stdout=None,
            stderr=None,
            start_new_session=True,
            env={**self._environment, supervised.SOCKET: str(its.fileno())},
            pass_fds=[its.fileno()],
        )


def _has_spoken(its: socket.socket) -> bool:
    with suppress(OSError):
        return its.recv(len(supervised.SERVING), socket.MSG_DONTWAIT | socket.MSG_PEEK) != b""
    return False
