"""`queue worker --processes N`: as many worker processes, watched. Signals are passed on to each, and one that dies is replaced;
but what none of them could do better (no such app, no schema) ends all of them.
"""

import logging
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from subprocess import DEVNULL

import anyio
from anyio.abc import Process

from inturn.cli.endings import NOT_FOUND, SCHEMA, USAGE
from inturn.worker import signals

logger = logging.getLogger("inturn.crew")
HOPELESS = (USAGE, NOT_FOUND, SCHEMA)
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a dead worker is replaced
WELL_AFTER = 60.0  # seconds: one that lived so long was well


def run(arguments: Sequence[str], name: str, count: int) -> int:
    """Until all have ended; their exit status. `arguments` are those of one worker, whose name gets a number."""
    crew = Crew([sys.executable, "-m", "inturn.cli", *arguments, "--processes", "1"], name, count)
    return anyio.run(crew.run)


class Crew:
    def __init__(self, command: Sequence[str], name: str, count: int) -> None:
        self._command = command
        self._names = [f"{name}-{number}" for number in range(1, count + 1)]
        self._processes: dict[str, Process] = {}
        self._stopping = anyio.Event()
        self._status = 0  # the worst of those who were told to end
        self._hopeless = 0  # of one that made us tell the others

    async def run(self) -> int:
        with signals.caught() as caught:
            async with anyio.create_task_group() as helpers:
                if caught is not None:
                    helpers.start_soon(signals.obey, caught, self._stop, self._stop)
                async with anyio.create_task_group() as members:
                    for name in self._names:
                        members.start_soon(self._keep, name)
                helpers.cancel_scope.cancel()
        return self._hopeless or self._status

    def _stop(self, reason: str) -> None:
        """The second time too: to a worker the second signal means something else."""
        logger.info("crew.stopping: %s; %d workers are told", reason, len(self._processes))
        self._stopping.set()
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.terminate()

    async def _keep(self, name: str) -> None:
        pause = SHORTEST_PAUSE
        while not self._stopping.is_set():
            began = time.monotonic()
            status = await self._work(name)
            if status == 0 or self._stopping.is_set():
                self._status = max(self._status, status)
                return
            if status in HOPELESS:
                self._hopeless = status
                self._stop(f"{name} ended with status {status}")
                return
            if time.monotonic() - began > WELL_AFTER:
                pause = SHORTEST_PAUSE
            logger.error("worker.died: %s, with status %d; a new one in %g s", name, status, pause)
            with anyio.move_on_after(pause):
                await self._stopping.wait()
            pause = min(LONGEST_PAUSE, 2 * pause)

    async def _work(self, name: str) -> int:
        """A session of its own: Ctrl-C is for us to pass on, or it would come twice and abort what runs."""
        async with await anyio.open_process(
            [*self._command, "--name", name], stdin=DEVNULL, stdout=None, stderr=None, start_new_session=True
        ) as process:
            self._processes[name] = process
            if self._stopping.is_set():
                process.terminate()  # told while it was being started
            try:
                status = await process.wait()
            finally:
                del self._processes[name]
        if status == -signal.SIGTERM:
            return 0  # told before it could listen: it had not begun
        return status if status >= 0 else 128 - status
