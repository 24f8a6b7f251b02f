"""`queue worker --processes N`: as many worker processes, watched. Signals are passed on to each, one that dies is replaced.

If a worker fails before any has served, for a reason that the others share (no such app, no schema), all of them end.
If the crew dies, its workers drain: see `member`.
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

logger = logging.getLogger("inturn.crew")
HOPELESS = (USAGE, NOT_FOUND, SCHEMA)
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a dead worker is replaced
WELL_AFTER = 60.0  # seconds: one that lived so long was well
PATIENCE = signals.PATIENCE + signals.LAST_WORDS  # workers use up theirs first


def run(call: Sequence[str], name: str, count: int, dsn: str | None) -> int:
    """Until all have ended; their exit status. `call` is what the interpreter is told for one worker, whose name gets a number."""
    command = [sys.executable, *supervised.without_dsn(list(call)), "--processes", "1"]
    signals.dedicate()
    return anyio.run(Crew(command, supervised.environment(dsn), name, count).run)


class Crew:
    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], name: str, count: int
    ) -> None:
        self._command = command
        self._environment = environment
        self._names = [f"{name}-{number}" for number in range(1, count + 1)]
        self._processes: dict[str, Process] = {}
        self._sockets: dict[str, socket.socket] = {}  # their other ends are the workers'
        self._stopping = anyio.Event()
        self._served: set[str] = set()  # those that have ever served
        self._status = 0  # the worst of those that were told to end
        self._hopeless = 0  # of one that made us tell the others

    async def run(self) -> int:
        with signals.caught(PATIENCE) as caught:
            async with anyio.create_task_group() as helpers:
                if caught is not None:
                    helpers.start_soon(signals.obey, caught, self._pass_on, self._pass_on)
                async with anyio.create_task_group() as members:
                    for name in self._names:
                        members.start_soon(self._keep, name)
                helpers.cancel_scope.cancel()
        return self._hopeless or self._status

    def _pass_on(self, name: str) -> None:
        """The second time too: to a worker the second signal means something else."""
        self._stop(name, signal.Signals[name])

    def _stop(self, reason: str, number: signal.Signals) -> None:
        logger.info("crew.stopping: %s; %d workers are told", reason, len(self._processes))
        self._stopping.set()
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self, name: str) -> None:
        pause = SHORTEST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            status = await self._work(name)
            if status == 0 or self._stopping.is_set():
                self._status = max(self._status, status)
                return
            if status in HOPELESS and not self._served:
                self._hopeless = status
                self._stop(f"{name} ended with status {status}", signal.SIGTERM)
                return
            if time.monotonic() - began > WELL_AFTER:
                pause = SHORTEST_PAUSE
            logger.error("worker.died: %s, with status %d; a new one in %g s", name, status, pause)
            with anyio.move_on_after(pause):
                await self._stopping.wait()
            pause = min(LONGEST_PAUSE, 2 * pause)

    async def _work(self, name: str) -> int:
        ours, its = socket.socketpair()
        with ours:
            with its:
                process = await self._start(name, its)
            self._processes[name], self._sockets[name] = process, ours
            try:
                async with process:
                    if self._stopping.is_set():
                        process.terminate()  # told while it was being started
                    status = await process.wait()
                self._served |= {name for name, its in self._sockets.items() if _has_spoken(its)}
            finally:
                del self._processes[name], self._sockets[name]
        if self._stopping.is_set() and name not in self._served:
            return 0  # it had not begun
        return status if status >= 0 else 128 - status

    async def _start(self, name: str, its: socket.socket) -> Process:
        """In a session of its own: Ctrl-C is for us to pass on, or it would come twice."""
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
