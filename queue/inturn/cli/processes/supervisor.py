"""The supervisor of `queue worker --processes N`: it runs N worker processes.

It passes signals to all of them, and replaces those that die or retire.
It kills those that hang: they send no heartbeats either, so other workers have already taken over
their jobs.
If a worker process fails before any has served, for a reason that applies to all (the app cannot
be imported, or the schema does not fit), all of them end.
If the supervisor dies, its worker processes drain: see `supervised`.
"""

import logging
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import itemgetter
from subprocess import DEVNULL

import anyio
from anyio.abc import Process

from inturn.cli.output.exit_status import NOT_FOUND, SCHEMA, UNEXPECTED, USAGE
from inturn.cli.processes import supervised
from inturn.errors import BadArgument
from inturn.health.systemd import Notifier, find_notifier
from inturn.worker import signals

logger = logging.getLogger(__name__)
HOPELESS = (USAGE, NOT_FOUND, SCHEMA)  # any other worker process would end the same way
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a dead worker is replaced
WELL_AFTER = 60.0  # seconds: a worker process that lived this long was healthy
SILENT_SECONDS = 60.0  # without a word from a worker process: its heartbeat is late by then
LOOK_SECONDS = 0.1  # between checks whether all worker processes serve
PATIENCE = signals.PATIENCE + signals.LAST_WORDS  # the worker processes must time out first


def name_processes(name: str, count: int, ports: Mapping[str, int | None]) -> dict[str, list[str]]:
    """Return the name of each worker process, with its specific arguments.

    Each gets its own port for each option: the first process the given port, the others the ports
    after it. With port 0, each picks a free one.
    """
    given = {option: port for option, port in ports.items() if port}
    for (option, port), (other, further) in pairwise(sorted(given.items(), key=itemgetter(1))):
        if 0 < further - port < count:
            raise BadArgument(
                other, f"{further} is one of the {count} ports from {option} {port} on"
            )
    return {
        f"{name}-{number + 1}": [
            word for option, port in given.items() for word in (option, str(port + number))
        ]
        for number in range(count)
    }


def run(call: Sequence[str], processes: Mapping[str, list[str]], dsn: str | None) -> int:
    """Run worker processes until all have ended, and return their exit status.

    `call` holds the interpreter's arguments for a process. `processes` maps the name of each to
    its additional arguments.
    """
    command = [sys.executable, *supervised.without_dsn(list(call)), "--processes", "1"]
    signals.dedicate()
    return anyio.run(Supervisor(command, supervised.make_environment(dsn), processes).run)


class Supervisor:
    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        processes: Mapping[str, list[str]],
    ) -> None:
        self._command = command
        self._environment = environment
        self._arguments = processes
        self._notifier = find_notifier()
        self._processes: dict[str, Process] = {}
        self._sockets: dict[str, socket.socket] = {}  # the workers hold the other ends
        self._stopping = anyio.Event()
        self._any_served = False  # at some time
        self._retiring: set[str] = set()  # names of those that end and should be replaced
        self._silence: dict[str, float] = {}  # seconds since the last word from each that serves
        self._status = 0  # the worst status of those told to end
        self._hopeless = 0  # the status that made us stop all of them

    async def run(self) -> int:
        with signals.caught(PATIENCE) as caught:
            async with anyio.create_task_group() as helpers:
                if caught is not None:
                    helpers.start_soon(signals.obey, caught, self._pass_on, self._pass_on)
                if self._notifier is not None:
                    helpers.start_soon(self._tell_systemd, self._notifier)
                helpers.start_soon(self._watch)
                async with anyio.create_task_group() as workers:
                    for name in self._arguments:
                        workers.start_soon(self._keep, name)
                helpers.cancel_scope.cancel()
        return self._hopeless or self._status

    def _pass_on(self, name: str) -> None:
        """Pass on every signal, because a second one has another meaning to workers."""
        self._stop(name, signal.Signals[name])

    def _stop(self, reason: str, number: signal.Signals) -> None:
        logger.info(
            "supervisor.stopping: %s; passed on to workers: %d", reason, len(self._processes)
        )
        self._stopping.set()
        if self._notifier is not None:
            self._notifier.say_stopping()
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    async def _tell_systemd(self, notifier: Notifier) -> None:
        """Tell systemd when all worker processes serve, and then that this process is alive."""
        while not self._all_serve():  # noqa: ASYNC110 (what they write says so, and stays unread)
            await anyio.sleep(LOOK_SECONDS)
        notifier.say_ready()
        while notifier.watchdog is not None:
            notifier.say_alive()
            await anyio.sleep(notifier.watchdog / 3)

    def _all_serve(self) -> bool:
        self._hear()
        return len(self._silence) == len(self._arguments)

    def _hear(self) -> None:
        for name, its in self._sockets.items():
            words = b""
            with suppress(OSError):
                words = its.recv(4096, socket.MSG_DONTWAIT)
            if words:
                self._any_served = True
                self._silence[name] = 0.0
                if supervised.RETIRING in words:
                    self._retiring.add(name)

    async def _watch(self) -> None:
        """Kill hanging worker processes, unless we were the ones that hung."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            self._hear()
            for name, seconds in list(self._silence.items()):
                self._silence[name] = seconds + LOOK_SECONDS
                if seconds >= SILENT_SECONDS:
                    self._kill(name)

    def _kill(self, name: str) -> None:
        process = self._processes[name]
        logger.error(
            "worker.silent: %s, process %d, has said nothing for %g s; killed",
            name,
            process.pid,
            SILENT_SECONDS,
        )
        self._silence[name] = 0.0
        with suppress(ProcessLookupError):
            process.kill()

    async def _keep(self, name: str) -> None:
        pause = SHORTEST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                status = await self._run_one(name)
            except OSError as error:  # such as too little memory for another process
                logger.error("worker.not_started: %s: %s", name, error)
                status = UNEXPECTED
            retired = name in self._retiring
            self._retiring.discard(name)
            if self._stopping.is_set() or (status == 0 and not retired):
                self._status = max(self._status, status)
                return
            if status == 0:
                logger.info("worker.retired: %s is replaced", name)
                continue
            if status in HOPELESS and not self._any_served:
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
                        process.terminate()  # the signal came during its start
                    status = await process.wait()
                self._hear()
            finally:
                del self._processes[name], self._sockets[name]
                served = self._silence.pop(name, None) is not None
        if self._stopping.is_set() and not served:
            return 0  # it had not served yet, whatever its predecessor did
        return status if status >= 0 else 128 - status

    async def _start(self, name: str, its: socket.socket) -> Process:
        """Start a worker process in a new session, or it would get Ctrl-C twice."""
        return await anyio.open_process(
            [*self._command, "--name", name, *self._arguments[name]],
            stdin=DEVNULL,
            stdout=None,
            stderr=None,
            start_new_session=True,
            env={**self._environment, supervised.SOCKET: str(its.fileno())},
            pass_fds=[its.fileno()],
        )
