"""Running what waits, in the process of the test: the real worker, which ends when nothing is left to do."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from inturn.app import App
from inturn.errors import InturnError
from inturn.testing.recording import Recorder, Run
from inturn.worker.claiming.prefetch import Prefetch
from inturn.worker.options import options
from inturn.worker.worker import Worker

# Ends by itself, leaves the test's signals alone, and hears of nothing that it would not find anyway.
IN_A_TEST = {"wait": False, "install_signal_handlers": False, "listen_notify": False}


class Endless(InturnError):
    """More runs than a test can mean."""


class Drain:
    """One call of `drain`: a worker, started as often as the caller likes, and what its jobs came to.

    `until` is asked after each run; once it is true no other job is begun, so with a concurrency of 1 it is exact.
    """

    def __init__(
        self,
        app: App,
        given: Mapping[str, Any],
        *,
        until: Callable[[], object] | None = None,
        at_most: int,
        note: Callable[[Run], object],
    ) -> None:
        self.runs: list[Run] = []
        self.met = False
        self._app = app
        self._options = options({**app.worker_defaults, **given, **IN_A_TEST})
        self._until = until
        self._at_most = at_most
        self._note_run = note
        self._refused: BaseException | None = None  # what `until` raised
        self._recorder = Recorder(app, self._note)
        self._worker: Worker
        self._loop: asyncio.AbstractEventLoop

    @property
    def is_over(self) -> bool:
        return self.met or self._refused is not None or len(self.runs) >= self._at_most

    async def work(self) -> None:
        """Run what is ready, and what becomes ready meanwhile."""
        self._app.perform_import_paths()
        self._loop = asyncio.get_running_loop()
        # Nothing is claimed ahead of a condition: what is in hand would be run although it is met.
        prefetch = Prefetch(self._options.concurrency, most_ahead=0) if self._until else None
        self._worker = Worker(self._recorder, self._app.connector, self._options, prefetch)
        await self._worker.run()

    def check(self) -> None:
        """Raise what makes the outcome void."""
        if self._refused is not None:
            raise self._refused
        if self._recorder.unknown is not None:
            raise self._recorder.unknown
        if not self.met and len(self.runs) >= self._at_most:
            last = self.runs[-1].job
            raise Endless(
                f"{self._at_most:,} runs and no end, the last of task {last.task_name} (job {last.id}, attempt "
                f"{last.attempts + 1}). Does a task defer itself, or retry for ever without a wait? Else: drain(at_most=…)"
            )

    def _note(self, run: Run) -> None:
        """In the thread of the run. The call is in the loop's line before the end of the run is, so nothing is begun between."""
        self.runs.append(run)
        self._note_run(run)
        if self._until is not None and not self.is_over:
            try:
                self.met = bool(self._until())
            except BaseException as error:
                self._refused = error
        if self.is_over:
            self._loop.call_soon_threadsafe(
                self._worker.stop, "the test has seen what it waited for"
            )
